// The contrast of the texts of a page, as a browser shows it, by WCAG 2.2, 1.4.3 (level AA): 4.5:1, and 3:1 for large texts.
// The tests of the site and those of the web view load it.
"use strict";

/** The colour of a CSS value as [red, green, blue, alpha], by what a canvas paints. */
const painter = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
  .getContext("2d", { willReadFrequently: true });
const colors = new Map();
function rgba(value) {
  if (!colors.has(value)) {
    painter.clearRect(0, 0, 1, 1);
    painter.fillStyle = value;
    painter.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = painter.getImageData(0, 0, 1, 1).data;
    colors.set(value, [r, g, b, a / 255]);
  }
  return colors.get(value);
}

const over = (front, back) => [0, 1, 2].map((i) => front[i] * front[3] + back[i] * (1 - front[3])).concat(1);

/** The relative luminance of WCAG 2. */
function luminance([r, g, b]) {
  const linear = (part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}

function contrast(one, other) {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

function background(element) {
  const layers = [];
  for (let each = element; each; each = each.parentElement) {
    layers.push(rgba(getComputedStyle(each).backgroundColor));
    if (layers.at(-1)[3] === 1) break;
  }
  return layers.reduceRight((back, front) => over(front, back), [255, 255, 255, 1]);
}

const named = (element) => element.tagName.toLowerCase() + [...element.classList].map((name) => `.${name}`).join("");

/** The texts of the page whose colour differs too little from what is behind them. */
function pale(root) {
  const found = new Map();
  const walker = root.ownerDocument.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (element.closest(".headerlink, script, style, .md-clipboard")) continue;
    const style = getComputedStyle(element);
    const back = background(element);
    const ratio = contrast(over(rgba(style.color), back), back);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) found.set(named(element), `${named(element)} "${text.slice(0, 20)}" ${ratio.toFixed(2)}`);
  }
  return [...found.values()];
}
