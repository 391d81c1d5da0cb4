"""Pure statistics: numbers in, numbers out. Nothing here knows of files, engines or metrics."""
