// What a report does in a browser: the theme, search, filters, and opening what a link leads to. _report_html.py puts it in.
const root = document.documentElement, box = document.getElementById("search");
if (matchMedia("(prefers-color-scheme: dark)").matches) root.classList.add("dark");
document.getElementById("theme").onclick = () => root.classList.toggle("dark");
const items = [...document.querySelectorAll(".function, .file, .functions tbody tr, .steps tbody tr")];
const texts = items.map(item => item.textContent.toLowerCase());
function shownKinds() {
  return [...document.querySelectorAll("#keys input")].filter(x => x.checked).map(x => x.dataset.kind);
}
function update() {
  const wanted = box.value.trim().toLowerCase(), kinds = shownKinds();
  items.forEach((item, i) => {
    const own = (item.dataset.kinds || "").split(" ").filter(Boolean);
    const kindFits = own.length === 0 || own.some(kind => kinds.includes(kind));
    item.classList.toggle("hidden", !(kindFits && texts[i].includes(wanted)));
  });
  document.querySelectorAll(".line").forEach(line => {
    const kind = ["captured", "loop", "broke", "eager"].find(k => line.classList.contains(k) || line.dataset.was === k);
    if (!kind) return;
    line.dataset.was = kind;
    line.classList.toggle(kind, kinds.includes(kind));
  });
}
box.oninput = update;
document.querySelectorAll("#keys input").forEach(x => x.onchange = update);
addEventListener("hashchange", () => {
  let at = document.getElementById(location.hash.slice(1));
  for (; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
});
