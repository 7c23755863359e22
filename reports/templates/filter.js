(() => {
  const form = document.querySelector(".filter"), cases = [...document.querySelectorAll(".case")];
  if (cases.length < 2) return;
  const text = form.querySelector("input"), [outcome, verdict] = form.querySelectorAll("select"), count = form.querySelector("output");
  const apply = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const c of cases) {
      const head = c.firstElementChild.textContent.toLowerCase();
      c.hidden = !(words.every(w => head.includes(w)) && (!outcome.value || c.dataset.outcome === outcome.value) && (!verdict.value || c.dataset.verdict === verdict.value));
      shown += !c.hidden;
    }
    count.textContent = shown === cases.length ? "" : shown + " of " + cases.length;
  };
  const reveal = () => {
    const body = location.hash.startsWith("#case-") && document.getElementById(location.hash.slice(1));
    if (!body) return;
    body.parentElement.hidden = false; body.parentElement.open = true; body.parentElement.scrollIntoView();
  };
  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", e => e.preventDefault());
  addEventListener("hashchange", reveal);
  reveal();
})();
