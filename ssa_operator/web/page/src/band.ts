// Where the marks of a timeline lie. All of it is a function of its arguments.
import type { Entry, Group, ObjectEvent } from "./api";

export const HOUR = 3600;
/** Seconds that a band may show, the widest first. */
export const SPANS = [3600, 1800, 900, 300, 120, 60];

export type Lane = "ready" | "reconciles" | "others" | "events";

export interface Mark { id: string; lane: Lane; at: number; until: number; entry?: Entry; event?: ObjectEvent }

/** Everything that happened, the oldest first. */
export function marks(entries: Record<string, Entry>, events: ObjectEvent[]): Mark[] {
  const shown = Object.entries(entries).filter(([, entry]) => entry.kind !== "condition" || entry.type === "Ready");
  const found: Mark[] = shown.map(([id, entry]) => ({
    id, entry, at: entry.at, until: entry.until ?? entry.at + (entry.seconds ?? 0),
    lane: entry.kind === "reconcile" ? "reconciles" : entry.kind === "change" ? "others" : "ready",
  }));
  events.forEach((event, number) => {
    const at = Date.parse(event.time) / 1000;
    if (at) found.push({ id: `event-${number}`, event, at, until: at, lane: "events" });
  });
  return found.sort((one, other) => one.at - other.at);
}

export interface Segment { from: number; to: number; group: Group; reason: string }

/** How ready a parent was, by the changes of its condition Ready; `since` is when it got the present one. */
export function segments(found: Mark[], present: { group: Group; reason: string; since: number }, now: number): Segment[] {
  const changes = found.flatMap(({ entry, at }) => (entry?.type === "Ready" ? [{ at, group: entry.group ?? "unknown", reason: entry.reason ?? "" }] : []));
  const first = changes[0];
  const starts = first === undefined ? [{ at: present.since, group: present.group, reason: present.reason }] : changes;
  return starts.map((start, at) => ({ from: start.at, to: starts[at + 1]?.at ?? now, group: start.group, reason: start.reason })).filter(({ from, to }) => to >= from);
}

export interface Tick { at: number; label: string }

/** Times for the axis, at most this many, on whole minutes or seconds. */
export function ticks(from: number, to: number, now: number, most: number): Tick[] {
  const step = [10, 15, 30, 60, 120, 300, 600, 900, 1200].find((each) => (to - from) / each <= most) ?? 1800;
  const found: Tick[] = [];
  for (let back = Math.ceil((now - to) / step) * step; now - back >= from; back += step) found.push({ at: now - back, label: label(back) });
  return found;
}

function label(seconds: number): string {
  if (seconds === 0) return "now";
  return seconds % 60 === 0 ? `${seconds / 60} min ago` : `${seconds} s ago`;
}

/** The span that shows everything since a time; never less than five minutes, so that a new parent's band is calm. */
export const spanSince = (oldest: number, now: number): number => SPANS.findLast((each) => each >= Math.max(300, now - oldest)) ?? HOUR;

/** The next narrower or wider span. */
export function zoomed(span: number, by: number): number {
  const at = SPANS.findIndex((each) => each <= span);
  return SPANS[Math.max(0, Math.min(SPANS.length - 1, (at < 0 ? SPANS.length - 1 : at) + by))]!;
}

/** The end of a window of this span around a time, within the last hour. */
export const endAround = (at: number, span: number, now: number): number => Math.min(now, Math.max(now - HOUR + span, at + span / 2));

/** Whether a reconcile failed, or an Event warns. */
export const failed = (mark: Mark): boolean => mark.entry?.result === "failed" || mark.entry?.result === "error" || mark.event?.type === "Warning";

/** What matters more is drawn where two marks lie on one another. */
const weight = (mark: Mark): number => (failed(mark) ? 3 : mark.entry?.did ? 2 : 1);

export interface Placed { mark: Mark; x: number }

/** The marks to draw, so that none hides another: of those that are less than `gap` apart, the one that matters most. */
export function apart(found: Mark[], x: (at: number) => number, gap: number, selected: string): Placed[] {
  const last = new Map<Lane, number>();
  const placed: Placed[] = [];
  for (const mark of found) {
    const here = { mark, x: x(mark.at) }, at = last.get(mark.lane), before = at === undefined ? undefined : placed[at];
    if (at === undefined || before === undefined || here.x - before.x >= gap || mark.id === selected) {
      last.set(mark.lane, placed.push(here) - 1);
    } else if (before.mark.id !== selected && weight(mark) > weight(before.mark)) placed[at] = here;
  }
  return placed;
}
