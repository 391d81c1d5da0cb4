"""The look that the report and the dashboard share: templates, style, figures, safety."""
