"use strict";
// A link to a part that is folded opens it, and the parts that it is inside of.
(() => {
  function open() {
    let part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!part) return;
    const target = part;
    for (; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", open);
  if (location.hash) open();
})();
