"use strict";
// Everything here is a convenience: the page shows all of its content without it.
(() => {
  const make = (tag, text, label) => {
    const node = document.createElement(tag);
    node.textContent = text;
    if (label) node.setAttribute("aria-label", label);
    return node;
  };

  // Pairs of a finding: buttons and arrow keys go from one to the next.
  for (const strip of document.querySelectorAll(".strip")) {
    const pairs = [...strip.children];
    if (pairs.length < 2) continue;
    const count = make("span", "");
    const shown = () => Math.round(strip.scrollLeft / Math.max(1, pairs[1].offsetLeft - pairs[0].offsetLeft));
    const show = () => { count.textContent = `pair ${shown() + 1} of ${pairs.length}`; };
    const go = (step) => {
      const next = Math.min(pairs.length - 1, Math.max(0, shown() + step));
      strip.scrollTo({ left: pairs[next].offsetLeft - pairs[0].offsetLeft, behavior: "instant" });
      show();
    };
    const back = make("button", "‹", "previous pair");
    const on = make("button", "›", "next pair");
    back.type = on.type = "button";
    back.addEventListener("click", () => go(-1));
    on.addEventListener("click", () => go(1));
    strip.addEventListener("scroll", show, { passive: true });
    strip.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      go(event.key === "ArrowLeft" ? -1 : 1);
    });
    const keys = make("div", "");
    keys.className = "strip-keys";
    keys.append(back, count, on);
    strip.nextElementSibling?.classList.contains("strip-note")
      ? strip.nextElementSibling.replaceWith(keys)
      : strip.after(keys);
    show();
  }

  // Tables sort by a click on a column's header.
  const value = (row, column) => {
    const cell = row.cells[column];
    const text = (cell.dataset.value ?? cell.textContent).trim().replace("−", "-");
    const number = Number.parseFloat(text);
    return Number.isNaN(number) ? text.toLowerCase() : number;
  };
  const compare = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sorter";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => {
        const up = header.getAttribute("aria-sort") !== "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        header.setAttribute("aria-sort", up ? "ascending" : "descending");
        const body = table.tBodies[0];
        const rows = [...body.rows].sort((a, b) => (up ? 1 : -1) * compare(value(a, column), value(b, column)));
        body.append(...rows);
      });
    });
  }

  // The gallery in another order; arrow keys go from card to card.
  for (const gallery of document.querySelectorAll(".gallery")) {
    const cards = gallery.querySelector(".cards");
    const select = document.createElement("select");
    for (const [name, text] of [["loss", "largest loss first"], ["label", "by class"], ["kind", "by kind"]]) {
      const option = make("option", text);
      option.value = name;
      select.append(option);
    }
    select.addEventListener("change", () => {
      const key = (card) => (select.value === "loss" ? -Number(card.dataset.loss) : card.dataset[select.value]);
      cards.append(...[...cards.children].sort((a, b) => compare(key(a), key(b))));
    });
    const label = make("label", "Order ");
    label.append(select);
    gallery.querySelector(".choices")?.append(label);
    cards.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const visible = [...cards.children].filter((card) => card.offsetParent !== null);
      const at = visible.indexOf(event.target.closest("article"));
      if (!step || at < 0 || !visible[at + step]) return;
      event.preventDefault();
      visible[at + step].focus();
    });
  }

  // Commands are copied by a click.
  for (const line of document.querySelectorAll(".command")) {
    if (!navigator.clipboard) break;
    const copy = make("button", "copy");
    copy.type = "button";
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(line.querySelector("code").textContent);
      copy.textContent = "copied";
    });
    line.append(copy);
  }

  // A link to something folded opens what it lies in.
  const open = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    for (let node = target && target.closest("details"); node; node = node.parentElement.closest("details")) node.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();
})();
