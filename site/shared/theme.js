// theme.js: a classic script for the head, so that no page flashes in the wrong colours.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("rushlight-theme");
  } catch {
    // Storage is refused: follow the system.
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = theme ?? (dark ? "dark" : "light");
})();
