// Each view has an address that can be sent to a colleague.
import { signal } from "@preact/signals";

/** The path of the pages, and of their JSON: a proxy may serve them below a path of its own, so they follow from where this script is. */
export const UI = new URL("..", import.meta.url).pathname;
export const API = new URL("../../api/v1/", import.meta.url).pathname;

export interface Place { path: string; query: URLSearchParams }

const here = (): Place => ({ path: location.pathname.slice(UI.length), query: new URLSearchParams(location.search) });

export const place = signal<Place>(here());

addEventListener("popstate", () => {
  place.value = here();
});

/** Go to an address below /ui/. What only selects or filters replaces the present address. */
export function go(address: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, "", `${UI}${address}`);
  else history.pushState(null, "", `${UI}${address}`);
  place.value = here();
  if (!replace) scrollTo(0, 0);
}

/** The address with other values in its query; what is empty is left out. */
export function withQuery(changes: Record<string, string>): string {
  const query = new URLSearchParams(place.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  return place.value.path + (text ? `?${text}` : "");
}

/** How the address of a folder's rollout ends. */
export const ROLLOUT = "/rollout";

export const folderAddress = (name: string): string => `${UI}folders/${encodeURIComponent(name)}`;

/** The line of a template in the page of its folder, from the page of a parent with what it renders for that one. A file that folders share is in the page of the folder of this page; "" where there is none. */
export function templateAddress(file: string, line: number | undefined): string {
  const [room, own = "", ...parent] = place.value.path.split("/").map(decodeURIComponent);
  const top = file.includes("/") ? file.split("/")[0]! : "";
  const folder = top.startsWith("_") ? own : top;
  if (!folder) return "";
  const query = new URLSearchParams({ file, line: String(line ?? 1) });
  if (room === "parents" && own === folder) query.set("parent", parent.join("/"));
  return `${folderAddress(folder)}?${query}`;
}

export const parentAddress = (key: string): string => `parents/${key.split("/").map(encodeURIComponent).join("/")}`;

/** Follow links of this page without loading it again. */
export function onLink(event: MouseEvent): void {
  const link = (event.target as Element).closest("a[href]");
  const address = link?.getAttribute("href") ?? "";
  if (!address.startsWith(UI) || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  go(address.slice(UI.length));
}
