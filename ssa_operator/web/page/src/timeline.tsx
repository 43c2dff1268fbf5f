// What happened in the last hour: a band to look at, and the same in words.
import { useMemo, useRef, useState } from "preact/hooks";
import type { Entry, Group, ObjectEvent } from "./api";
import { apart, endAround, failed, HOUR, type Lane, type Mark, marks, segments, SPANS, spanSince, ticks, zoomed } from "./band";
import { now, State, useSize } from "./parts";
import { age, clock, plural } from "./words";

const LANES: Record<Lane, string> = { ready: "Ready", reconciles: "Reconciles", others: "Others", events: "Events" };
const LANE = 24, TOP = 22, MARK = 14, EDGE = 8;

interface BandProps {
  entries: Record<string, Entry>;
  events: ObjectEvent[];
  /** The parent's condition Ready. */
  present: { group: Group; reason: string; since: number };
  onSelect: (child: string) => void;
}

export function Band({ entries, events, present, onSelect }: BandProps) {
  const time = now.value / 1000;
  const [chosen, setSpan] = useState<number | null>(null);
  const [end, setEnd] = useState<number | null>(null);
  const [selected, setSelected] = useState("");
  const [width, setWidth] = useState(0);
  const box = useSize<HTMLDivElement>((element) => setWidth(element.clientWidth));
  const found = useMemo(() => marks(entries, events), [entries, events]);
  const oldest = Math.min(found[0]?.at ?? time, present.since);
  const span = chosen ?? spanSince(oldest, time);
  const to = Math.max(time - HOUR + span, Math.min(end ?? time, time)), from = to - span;
  const x = (at: number) => ((at - from) / span) * Math.max(1, width - EDGE);
  const lanes = (Object.keys(LANES) as Lane[]).filter((lane) => lane !== "events" || events.length > 0);
  const y = (lane: Lane) => TOP + lanes.indexOf(lane) * LANE;
  const drawn = apart(found.filter((each) => each.until >= from && each.at <= to && lanes.includes(each.lane)), x, 4, selected);
  const mark = found.find((each) => each.id === selected);

  const zoom = (by: number, at = mark?.at ?? to) => {
    const next = zoomed(span, by);
    setSpan(next);
    setEnd(at >= to - span * 0.02 && end === null ? null : endAround(at, next, time));
  };
  const choose = (next: Mark | undefined) => {
    if (next === undefined) return;
    setSelected(next.id);
    if (next.at < from || next.at > to) setEnd(endAround(next.at, span, time));
  };
  const keys: Record<string, () => void> = {
    ArrowLeft: () => choose(mark ? found[found.indexOf(mark) - 1] : found.at(-1)),
    ArrowRight: () => choose(mark ? found[found.indexOf(mark) + 1] : found.at(-1)),
    Home: () => choose(found[0]), End: () => choose(found.at(-1)),
    "+": () => zoom(1), "=": () => zoom(1), "-": () => zoom(-1),
    0: () => { setSpan(null); setEnd(null); },
    Escape: () => (selected ? setSelected("") : box.current?.blur()),
    Enter: () => mark?.entry?.child && onSelect(mark.entry.child),
  };
  const onKey = (event: KeyboardEvent) => {
    const act = keys[event.key];
    if (act === undefined || event.metaKey || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };
  const onWheel = (event: WheelEvent) => {
    const across = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (across) setEnd(endAround(to - span / 2 + (event.deltaX / Math.max(1, width)) * span, span, time));
    else if (event.ctrlKey || event.shiftKey) zoom(event.deltaY < 0 ? 1 : -1, from + (event.offsetX / Math.max(1, width)) * span);
    else return;
    event.preventDefault();
  };
  const height = TOP + lanes.length * LANE;
  const onClick = (event: MouseEvent) => {
    const ground = (event.currentTarget as Element).getBoundingClientRect();
    const lane = lanes[Math.floor((event.clientY - ground.top - TOP) / LANE)], at = event.clientX - ground.left;
    const distance = (each: { mark: Mark; x: number }) => Math.max(0, each.x - at, at - Math.max(each.x, x(each.mark.until)));
    const near = drawn.filter((each) => each.mark.lane === lane && distance(each) < 12).sort((one, other) => distance(one) - distance(other))[0];
    choose(near?.mark);
  };
  return (
    <section class="band" aria-label="Timeline of the last hour">
      <div class="lanes small" aria-hidden="true">{lanes.map((lane) => <span key={lane}>{LANES[lane]}</span>)}</div>
      <div class="marks" ref={box} tabIndex={0} role="group" aria-label={`${plural(found.length, "entry")} in the last hour. Arrow keys choose one, plus and minus zoom.`} onKeyDown={onKey} onWheel={onWheel}>
        <svg width={width} height={height} aria-hidden="true" onClick={onClick}>
          <defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="hatch" d="M0 0h6v6h-6z" /><path class="cut" d="M0 0v6" /></pattern></defs>
          {ticks(from, to, time, Math.max(2, Math.min(6, Math.floor(width / 96)))).map((tick) => {
            const at = x(tick.at), anchor = at > width - 48 ? "end" : at < 40 ? "start" : "middle";
            return <g key={tick.label}><path class="grid" d={`M${at.toFixed(1)} ${TOP - 6}V${height}`} /><text x={at} y="12" text-anchor={anchor}>{tick.label}</text></g>;
          })}
          {segments(found, present, time).map((each) => {
            const left = Math.max(0, x(each.from)), right = Math.min(width - EDGE, x(each.to));
            return right > 0 && left < width && <rect key={each.from} class={`stretch ${each.group}`} x={left} y={y("ready") + 4 + (MARK - BARS[each.group]) / 2} width={Math.max(2, right - left - 1)} height={BARS[each.group]} rx="2"><title>{each.reason}</title></rect>;
          })}
          {drawn.map((each) => <Drawn key={each.mark.id} mark={each.mark} x={each.x} right={x(each.mark.until)} y={y(each.mark.lane)} on={each.mark.id === selected} />)}
        </svg>
      </div>
      <div class="said small">
        <p aria-live="polite">{mark ? <Said mark={mark} onSelect={onSelect} /> : <span class="faint">{found.length === 0 ? "Nothing happened in the last hour, as far as this process has seen." : "Choose a mark to read what happened."}</span>}</p>
        <span class="spans end" role="group" aria-label="Length of the band">
          {SPANS.filter((each) => [3600, 900, 300, 60].includes(each)).map((each) => (
            <button type="button" key={each} class={each === span ? "chip on" : "chip"} aria-pressed={each === span} onClick={() => { setSpan(each); setEnd(mark ? endAround(mark.at, each, time) : null); }}>
              {each === HOUR ? "1 h" : `${each / 60} min`}
            </button>
          ))}
        </span>
      </div>
    </section>
  );
}

/** How high the bar of a group is: a state is a shape, too. */
const BARS: Record<Group, number> = { ready: MARK, failed: MARK, working: 8, unknown: 4 };

function Drawn({ mark, x, right, y, on }: { mark: Mark; x: number; right: number; y: number; on: boolean }) {
  const shape = outline(mark, x, right, y);
  return <>{on && <rect class="halo" x={x - 8} y={y + 1} width={Math.max(16, right - x + 12)} height={MARK + 6} rx="3" />}{shape}</>;
}

function outline(mark: Mark, x: number, right: number, y: number) {
  const { entry, event } = mark;
  const middle = y + 4 + MARK / 2, at = x.toFixed(1);
  if (mark.lane === "ready") return <path class="turn" d={`M${at} ${y + 2}v${LANE - 6}`} />;
  if (mark.lane === "others") return <path class={entry?.deleted ? "other gone" : "other"} d={`M${at} ${middle - 6}l5 6-5 6-5-6z`} />;
  if (event) return event.type === "Warning" ? <path class="warning" d={`M${at} ${middle - 5}l5.5 10h-11z`} /> : <circle class="event" cx={x} cy={middle} r="3.5" />;
  if (failed(mark)) return <path class="failed" d={`M${at} ${middle - 6}l5.5 11h-11z`} />;
  if (entry?.did) return <rect class="did" x={x - 1.5} y={y + 4} width={Math.max(3, right - x)} height={MARK} rx="1" />;
  const run = Math.max(1, right - x).toFixed(1);
  return <path class="quiet" d={`M${at} ${middle - 1}h${run}v2h-${run}zM${x - 1} ${middle - 4}h2v8h-2z`} />;
}

const CAUSES: Record<string, string> = {
  parent: "the parent changed",
  child: "a child changed",
  template: "its templates, or what they look up, changed",
  retry: "a retry",
  first_list: "the operator started",
  resync: "a resync",
  status: "its status",
  status_overdue: "its status",
};

/** `a child changed, a resync`: why a parent was reconciled. */
export const causes = (entry: Entry): string => [...new Set((entry.causes ?? []).map((each) => CAUSES[each] ?? each))].join(", ") || "no recorded cause";

const RESULTS: Record<string, [Group, string]> = { ok: ["ready", "Ready"], waiting: ["working", "Waiting"], failed: ["failed", "Failed"], error: ["failed", "Not finished"] };

const VERBS: Record<string, string> = { created: "created", configured: "changed", recreated: "recreated", pruned: "pruned", failed: "failed" };

const took = (seconds: number): string => (seconds < 1 ? `${Math.max(1, Math.round(seconds * 1000))} ms` : `${seconds.toFixed(1)} s`);

/** A mark in one line. */
function Said({ mark, onSelect }: { mark: Mark; onSelect: BandProps["onSelect"] }) {
  const { entry, event } = mark;
  return <><span class="num">{clock(mark.at)}</span> {event ? <><b>{event.reason}</b> {event.note} <span class="faint">{event.reporter}</span></> : entry && <What entry={entry} onSelect={onSelect} short />}</>;
}

function What({ entry, onSelect, short = false }: { entry: Entry; onSelect: BandProps["onSelect"]; short?: boolean }) {
  if (entry.kind === "condition") return <><b>{entry.type}</b> {entry.before && entry.before !== entry.reason && <><span class="dim">{entry.before}</span> → </>}{entry.reason} <span class="faint">{entry.status}</span></>;
  if (entry.kind === "change") {
    const object = entry.object === "parent" ? "the parent" : <Object_ entry={{ object: entry.object ?? "", child: entry.child ?? "" }} onSelect={onSelect} />;
    return <>{entry.deleted ? <>{object} was deleted</> : <><b>{entry.manager}</b> changed {object}</>}{entry.fields && <span class="dim"> · {entry.fields.join(", ")}</span>}</>;
  }
  const [group, word] = RESULTS[entry.result ?? ""] ?? ["unknown", entry.result ?? ""];
  const many = entry.count ?? 1;
  return (
    <>
      <State group={group} word={word} /> <span class="dim">{many > 1 ? `${many} reconciles, ` : ""}{causes(entry)} · {many > 1 ? "at most " : ""}{took(entry.seconds ?? 0)}</span>
      {short && entry.did?.slice(0, 3).map((each) => <span key={each.child}> · {VERBS[each.result]} <Object_ entry={each} onSelect={onSelect} /></span>)}
      {short && (entry.did?.length ?? 0) > 3 && ` · and ${entry.did!.length - 3 + (entry.more ?? 0)} more`}
      {entry.message && <span class="dim"> · {entry.message}</span>}
    </>
  );
}

function Object_({ entry, onSelect }: { entry: { object: string; child: string }; onSelect: BandProps["onSelect"] }) {
  return entry.child ? <button type="button" class="plain link" onClick={() => onSelect(entry.child)}>{entry.object}</button> : <>{entry.object}</>;
}

/** The same in words, the newest first. With `child`, what concerns that object alone. */
export function History({ entries, child = "", onSelect }: { entries: Record<string, Entry>; child?: string; onSelect: BandProps["onSelect"] }) {
  const [all, setAll] = useState(false);
  const opened = useRef(Date.now() / 1000);
  /** Whether it has just been added. */
  const fresh = (entry: Entry): boolean => (entry.until ?? entry.at) > opened.current && now.value / 1000 - (entry.until ?? entry.at) < 2;
  const found = Object.entries(entries).filter(([, each]) => !child || each.child === child || each.did?.some((done) => done.child === child));
  found.sort(([id, one], [next, other]) => (other.until ?? other.at) - (one.until ?? one.at) || Number(next) - Number(id));
  if (found.length === 0) return <p class="empty">{child ? "No reconcile changed it in the last hour, and no other manager did." : "Nothing happened in the last hour, as far as this process has seen."}</p>;
  const shown = all ? found : found.slice(0, SHOWN);
  return (
    <>
    <ol class="history" aria-label="What happened, the newest first">
      {shown.map(([id, entry]) => (
        <li key={id} class={fresh(entry) ? "flash" : undefined}>
          <span class="num faint" title={`${age(new Date(entry.at * 1000).toISOString(), now.value)} ago`}>{clock(entry.until ?? entry.at)}</span>
          <div>
            <What entry={entry} onSelect={onSelect} />
            {entry.did?.filter((each) => !child || each.child === child).map((each) => (
              <p key={`${each.child}${each.result}`} class="dim"><span class={each.result === "failed" ? "s failed" : ""}>{VERBS[each.result]}</span> <Object_ entry={each} onSelect={onSelect} />{each.reason && <span class="faint">: {each.reason}</span>}</p>
            ))}
            {entry.more && !child && <p class="faint">and {plural(entry.more, "object")} more</p>}
          </div>
        </li>
      ))}
    </ol>
    {shown.length < found.length && <p class="calm"><button type="button" class="plain link" onClick={() => setAll(true)}>Show {plural(found.length - shown.length, "earlier entry")}</button></p>}
    </>
  );
}

/** Entries that a history shows at first. */
const SHOWN = 50;
