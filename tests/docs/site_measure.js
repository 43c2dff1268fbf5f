// Measures a page of the site as a reader's browser shows it. The page of tests/docs/browser.py loads it,
// after tests/contrast.js.
"use strict";

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
function layout(root) {
  const view = root.ownerDocument.defaultView;
  const scroller = root.ownerDocument.documentElement;
  const found = [];
  if (scroller.scrollWidth > view.innerWidth + 1) found.push(`the page is ${scroller.scrollWidth} wide of ${view.innerWidth}`);
  for (const each of root.querySelectorAll("*")) {
    const style = getComputedStyle(each);
    if (each.scrollWidth <= each.clientWidth + 1 || style.display === "inline") continue;
    if (["hidden", "clip"].includes(style.overflowX)) found.push(`clipped: ${named(each)} ${each.textContent.trim().slice(0, 30)}`);
    if (each.matches(".md-typeset__scrollwrap"))
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
  found.wide = layout(page.querySelector("article"));
  frame.style.width = "390px";
  await new Promise((resolve) => frame.contentWindow.requestAnimationFrame(() => frame.contentWindow.requestAnimationFrame(resolve)));
  found.phone = layout(page.querySelector("article"));
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
