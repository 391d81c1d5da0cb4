"use strict";
// Light or dark: what the system says, until somebody presses the button.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("calipers-theme"); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem("calipers-theme", theme); } catch { /* a file may have no storage */ } };
  const now = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  if (["light", "dark"].includes(kept())) root.dataset.theme = kept();
  root.classList.add("scripted");
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-toggle-theme]")) return;
    root.dataset.theme = now() === "dark" ? "light" : "dark";
    keep(root.dataset.theme);
  });
})();
