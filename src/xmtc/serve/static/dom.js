// Elements without markup: whatever comes from a user or a model is text.

/** An element; a function among the attributes listens, `true` is an attribute without a value, strings are text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** A bar as long as this share of its place. */
export function bar(share, side = "for") {
  const filled = element("span", { class: side });
  filled.style.setProperty("--shade", `${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`);
  return element("span", { class: "bar", "aria-hidden": "true" }, filled);
}

/** "1 tag", "2 tags". */
export function counted(number, thing) {
  return `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;
}
