"use strict";
// Keys of the page where people rate: a number, y or n chooses for the criterion at hand and goes on
// to the next; Enter sends, s skips, u takes back, t shows the target. Without it the form works by
// its buttons.
(() => {
  const form = document.querySelector("#rate");
  const typing = (element) => element.closest("input:not([type=radio]), select, textarea");
  const fieldsets = () => (form ? [...form.querySelectorAll("fieldset")] : []);
  const current = () => fieldsets().find((each) => each.classList.contains("current"));

  const enter = (fieldset) => {
    fieldsets().forEach((each) => each.classList.toggle("current", each === fieldset));
    fieldset.scrollIntoView({ block: "nearest" });
    fieldset.querySelector("input:not([type=radio])")?.focus();
  };

  const goOn = (fieldset) => {
    const all = fieldsets();
    const next = all.find((each) => !each.querySelector("input:checked, input:not([type=radio])"))
      ?? all[Math.min(all.length - 1, all.indexOf(fieldset) + 1)];
    enter(next);
  };

  const choose = (key) => {
    const fieldset = current();
    const options = [...(fieldset?.querySelectorAll("input[data-rate]") ?? [])];
    const ends = { y: options.length === 2 ? options[1] : null, n: options.length === 2 ? options[0] : null };
    const found = options.find((each) => each.dataset.rate === key) ?? ends[key];
    if (!found) return false;
    found.checked = true;
    goOn(fieldset);
    return true;
  };

  form?.addEventListener("focusin", (event) => {
    const fieldset = event.target.closest("fieldset");
    if (fieldset && fieldset !== current()) enter(fieldset);
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || typing(event.target)) return;
    const button = document.querySelector(`button[data-rate="${CSS.escape(event.key)}"]`);
    const target = document.querySelector("#target");
    if (event.key === "Enter" && form && !event.target.closest("button, a, summary")) {
      event.preventDefault();
      form.requestSubmit(form.querySelector("button[value=rate]"));
    } else if (button) button.click();
    else if (event.key === "t" && target) target.open = !target.open;
    else if (form && choose(event.key)) event.preventDefault();
  });
})();
