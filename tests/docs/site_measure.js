// Measures a page of the site as a reader's browser shows it. The page of tests/docs/browser.py loads it.
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

/** Words in tables with a line break within them. */
function broken(root) {
  const found = [];
  const range = root.ownerDocument.createRange();
  for (const cell of root.querySelectorAll("td, th")) {
    const walker = root.ownerDocument.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      for (const word of walker.currentNode.data.matchAll(/[\p{L}\p{N}]{2,}/gu)) {
        range.setStart(walker.currentNode, word.index);
        range.setEnd(walker.currentNode, word.index + word[0].length);
        if (range.getClientRects().length > 1) found.push(word[0]);
      }
    }
  }
  return found;
}

/** The average luminance of a picture with its CSS filter, from 0 to 1. */
function brightness(image) {
  const canvas = Object.assign(document.createElement("canvas"), { width: 60, height: 60 });
  const context = canvas.getContext("2d");
  context.filter = getComputedStyle(image).filter;
  context.drawImage(image, 0, 0, 60, 60);
  const data = context.getImageData(0, 0, 60, 60).data;
  let sum = 0;
  for (let at = 0; at < data.length; at += 4) sum += luminance(over([data[at], data[at + 1], data[at + 2], data[at + 3] / 255], [30, 33, 41, 1]));
  return sum / (data.length / 4);
}

/** What the layout of a page hides or pushes out at its present width. */
function layout(root, wide) {
  const view = root.ownerDocument.defaultView;
  const scroller = root.ownerDocument.documentElement;
  const found = [];
  if (scroller.scrollWidth > view.innerWidth + 1) found.push(`the page is ${scroller.scrollWidth} wide of ${view.innerWidth}`);
  for (const each of root.querySelectorAll("*")) {
    const style = getComputedStyle(each);
    if (each.scrollWidth <= each.clientWidth + 1 || style.display === "inline") continue;
    if (["hidden", "clip"].includes(style.overflowX)) found.push(`clipped: ${named(each)} ${each.textContent.trim().slice(0, 30)}`);
    if (wide && each.matches(".md-typeset__scrollwrap"))
      found.push(`a table is ${each.scrollWidth} wide of ${each.clientWidth}: ${each.textContent.trim().slice(0, 30)}`);
  }
  for (const pre of root.querySelectorAll("pre")) {
    const button = pre.querySelector(".md-code__nav")?.getBoundingClientRect();
    const code = pre.querySelector("code").getBoundingClientRect();
    if (button && code.right > button.left + 1) found.push(`code is under the copy button: ${pre.textContent.slice(0, 30)}`);
    if (pre.querySelector("code").scrollWidth > pre.querySelector("code").clientWidth + 1 && pre.closest(".language-sh"))
      found.push(`a command is cut: ${pre.textContent.slice(0, 30)}`);
  }
  return found.concat(broken(root).map((word) => `broken: ${word}`));
}

/** Everything about one page: a list of findings for each scheme and width. */
async function measured(path, frame) {
  frame.style.width = "1280px";
  await new Promise((resolve) => { frame.onload = resolve; frame.src = path; });
  const page = frame.contentDocument;
  page.head.append(Object.assign(page.createElement("style"), { textContent: "* { transition: none !important; animation: none !important }" }));
  await page.fonts.ready;
  const found = {};
  for (const scheme of ["default", "slate"]) {
    page.body.setAttribute("data-md-color-scheme", scheme);
    found[scheme] = pale(page.body);
    for (const image of page.querySelectorAll("article img")) {
      await image.decode();
      const bright = brightness(image);
      if (scheme === "slate" && bright > 0.4) found[scheme].push(`${image.src} is ${bright.toFixed(2)} bright in the dark`);
    }
  }
  found.wide = layout(page.querySelector("article"), true);
  frame.style.width = "390px";
  await new Promise((resolve) => frame.contentWindow.requestAnimationFrame(() => frame.contentWindow.requestAnimationFrame(resolve)));
  found.phone = layout(page.querySelector("article"), false);
  return found;
}

async function main(paths) {
  const frame = document.body.appendChild(Object.assign(document.createElement("iframe"), { style: "height: 900px; border: 0" }));
  const found = {};
  for (const path of paths) {
    try {
      found[path] = await measured(path, frame);
    } catch (error) {
      found[path] = { error: [String(error.stack)] };
    }
  }
  await fetch("/measured", { method: "POST", body: JSON.stringify(found) });
}
