// The answer of one model: its tags as a list, a slider for the threshold, and the panel to correct them.

import { above, correction } from "./correct.js";
import { bar, counted, element } from "./dom.js";
import { balanced, range, sentence } from "./threshold.js";

const KINDS = { probability: "probabilities", calibrated: "calibrated probabilities", ranking: "scores that rank, no probabilities" };
const STEPS = 200; // of the slider

/**
 * A card; `answers` are {free, tuned, most}: the first tags without a threshold, `most` of them, and those that the
 * model's own thresholds let pass, or null. `explain(label, button)` is called when a tag is chosen, `changed` when other
 * tags are shown, `say` with what a screen reader should know.
 */
export function card(model, text, answers, { explain, changed, say }) {
  const { low, high } = range(model, answers.free.labels);
  const step = (high - low) / STEPS;
  let others = null; // ids that the other model shows
  const slider = element("input", { type: "range", min: low, max: high, step, input: () => update() });
  slider.value = balanced(model.curve) ?? low;
  const beside = element("output");
  const own = element("input", { type: "checkbox", change: () => update() });
  const list = element("ol", { class: "tags" });
  const below = element("p", { class: "soft below" });
  let pressed = null; // id of the tag that is explained

  const shown = () =>
    own.checked ? answers.tuned.labels : answers.free.labels.filter((label) => label.score >= Number(slider.value));

  function update() {
    const threshold = Number(slider.value);
    slider.disabled = own.checked;
    beside.textContent = own.checked ? "Each label has a threshold of its own." : sentence(model.curve, threshold);
    slider.setAttribute("aria-valuetext", beside.textContent);
    render();
    changed();
  }

  function render() {
    const labels = shown();
    const best = Math.max(...answers.free.labels.map((label) => label.score), Number.MIN_VALUE);
    list.replaceChildren(...labels.map((label) => element("li", {}, tag(label, model.score_kind === "ranking" ? best : 1))));
    const hidden = own.checked ? 0 : answers.free.labels.length - labels.length;
    const cut = labels.length >= answers.most ? `No more than ${counted(answers.most, "tag")} asked for: further ones may reach the threshold.` : "";
    below.textContent = labels.length
      ? hidden ? `${counted(hidden, "further tag")} below the threshold` : cut
      : hidden ? `No tag reaches the threshold; the best has ${best.toFixed(3)}.` : "The model gives this text no tag.";
  }

  function tag(label, full) {
    const path = above(label);
    const only = others && !others.has(label.id) ? element("span", { class: "only" }, " only here") : null;
    const parts = [path ? element("span", { class: "path" }, path) : null,
      element("span", { class: "name", dir: "auto" }, label.name, only),
      element("span", { class: "score" }, label.score.toFixed(3)), bar(label.score / full)];
    if (!model.explains) return element("div", { class: "tag" }, ...parts);
    return element("button", {
      class: "tag", type: "button", "aria-pressed": String(label.id === pressed), "data-label": label.id,
      click: (event) => explain(label, event.currentTarget),
    }, ...parts);
  }

  const facts = [counted(model.labels, "label"), model.documents ? counted(model.documents, "training document") : null,
    KINDS[answers.free.score_kind] ?? answers.free.score_kind, `version ${answers.free.version}`];
  const threshold = element("div", { class: "threshold" }, element("label", {}, "Threshold", slider), beside,
    answers.tuned ? element("label", {}, own, " the model's own thresholds") : null);
  const hint = model.explains ? "Choose a tag to see why." : "This model cannot explain its tags.";
  const made = element("article", { "aria-label": `Tags by ${model.title}` }, element("h2", { dir: "auto" }, model.title),
    element("p", { class: "soft about" }, facts.filter(Boolean).join(" · ")), threshold, list, below,
    element("p", { class: "soft below" }, hint), correction(model, text, shown, say));
  return {
    element: made,
    update,
    shown: () => new Set(shown().map((label) => label.id)),
    compare(ids) {
      others = ids;
      render();
    },
    press(id) {
      pressed = id;
      for (const button of list.querySelectorAll("button")) {
        button.setAttribute("aria-pressed", String(button.dataset.label === id));
      }
    },
  };
}
