// What a threshold is expected to bring, from the points that the model measured on its validation documents.

/** Precision and recall at a threshold, between the two nearest points; null without a curve. */
export function expected(curve, threshold) {
  if (!curve?.length) return null;
  const points = [...curve].sort((a, b) => a.threshold - b.threshold);
  const after = points.findIndex((point) => point.threshold >= threshold);
  if (after <= 0) return points.at(after);
  const [low, high] = [points[after - 1], points[after]];
  const part = (threshold - low.threshold) / (high.threshold - low.threshold);
  const between = (name) => low[name] + part * (high[name] - low[name]);
  return { threshold, precision: between("precision"), recall: between("recall") };
}

/** The threshold with the best F1 on the validation documents; null without a curve. */
export function balanced(curve) {
  const f1 = ({ precision, recall }) => (2 * precision * recall) / (precision + recall || 1);
  return curve?.length ? curve.reduce((best, point) => (f1(point) > f1(best) ? point : best)).threshold : null;
}

/** The ends of the slider: probabilities lie between 0 and 1, other scores where the curve and the answer have them. */
export function range(model, labels) {
  if (model.score_kind !== "ranking") return { low: 0, high: 1 };
  const seen = [...(model.curve ?? []).map((point) => point.threshold), ...labels.map((label) => label.score)];
  if (!seen.length) return { low: 0, high: 1 };
  const [low, high] = [Math.min(...seen), Math.max(...seen)];
  return low < high ? { low, high } : { low: low - 1, high };
}

const percent = (share) => `${Math.round(100 * share)}\u00a0%`;

/** The sentence beside the slider. */
export function sentence(curve, threshold) {
  const point = expected(curve, threshold);
  const at = threshold.toFixed(2);
  if (!point) return `At ${at}; the precision to expect was not measured, since the model has seen no validation documents.`;
  return `At ${at}: expected precision ${percent(point.precision)}, recall ${percent(point.recall)}`;
}
