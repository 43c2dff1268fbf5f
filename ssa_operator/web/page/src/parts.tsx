// The small parts that all pages are made of.
import { type ComponentChildren, Fragment, type RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { computed, signal } from "@preact/signals";
import { cluster, type Connection, type Group, reader, signOut, type Stream } from "./api";
import type { Reading } from "./read";
import { go, templateAddress, UI, withQuery } from "./router";
import { age } from "./words";

/** The time, for ages; it ticks once a second while the page is seen. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);

/** How long ago a time is. A tick changes this text alone, and no element around it. */
export function Age({ time, otherwise = "" }: { time: string | undefined; otherwise?: string }) {
  const text = useMemo(() => computed(() => age(time, now.value) || otherwise), [time, otherwise]);
  return <>{text}</>;
}

/** The groups of parents: what needs a change first. */
export const GROUPS = ["failed", "working", "unknown", "ready"] as const;

type Shape = "ok" | "progress" | "absent" | "failed";

const SHAPES: Record<Shape, ComponentChildren> = {
  ok: <><circle cx="6" cy="6" r="5" fill="currentColor" /><path class="cut" d="M3.6 6.2l1.7 1.7 3.2-3.6" stroke-width="1.4" fill="none" /></>,
  progress: <><circle cx="6" cy="6" r="4.3" fill="none" stroke="currentColor" stroke-width="1.4" /><path d="M6 6V1.7A4.3 4.3 0 0 1 10.3 6z" fill="currentColor" /></>,
  absent: <rect x="1" y="1" width="10" height="10" rx="2" fill="none" stroke="currentColor" stroke-width="1.3" stroke-dasharray="2 1.6" />,
  failed: <><path d="M6 .8L11.6 11H.4z" fill="currentColor" /><path class="cut" d="M6 4.4v3.2M6 8.7v1" stroke-width="1.3" /></>,
};

const STATES: Record<string, [Shape, Group]> = {
  Current: ["ok", "ready"],
  Ready: ["ok", "ready"],
  Completed: ["ok", "ready"],
  InProgress: ["progress", "working"],
  Progressing: ["progress", "working"],
  Terminating: ["progress", "working"],
  Deleting: ["progress", "working"],
  Waiting: ["absent", "working"],
  WaitingForDependency: ["absent", "working"],
  Failed: ["failed", "failed"],
  NotFound: ["absent", "unknown"],
  Unknown: ["absent", "unknown"],
};

const BY_GROUP: Record<Group, Shape> = { ready: "ok", working: "progress", failed: "failed", unknown: "absent" };

/** The group of a child's state. */
export const groupOf = (state: string | undefined): Group => STATES[state ?? ""]?.[1] ?? "unknown";

/** A state is a shape, a word and a colour. */
export function State({ state, group, word }: { state?: string; group?: Group; word?: string }) {
  const [shape, colour] = STATES[state ?? ""] ?? [BY_GROUP[group ?? "unknown"], group ?? "unknown"];
  const used = group ?? colour;
  return (
    <span class={`s ${used}`}>
      <svg viewBox="0 0 12 12" aria-hidden="true">{SHAPES[group === "failed" ? "failed" : shape]}</svg>
      {word ?? stateWord(state)}
    </span>
  );
}

/** A line of a template: a link to the page of its folder. */
export function Source({ file, line }: { file: string; line: number | undefined }) {
  const words = <code>{file.split("/").at(-1)}:{line}</code>;
  const address = templateAddress(file, line);
  return address ? <a class="link" href={address}>{words}</a> : words;
}

/** A state as a page shows it. */
export const stateWord = (state: string | undefined): string => (state === "WaitingForDependency" ? "Waiting" : state ?? "");

/** A button that copies a command, and says so. */
export function Copy({ text, children, quiet = false }: { text: string; children: ComponentChildren; quiet?: boolean }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch {
      prompt("Copy this command", text);
    }
  };
  return <button type="button" class={quiet ? "plain link" : "button"} title={text} onClick={copy}>{copied ? "copied" : children}</button>;
}

const CONNECTIONS: Record<Connection, [Group, string]> = {
  connecting: ["unknown", "connecting"],
  live: ["ready", "live"],
  lost: ["failed", "no answer"],
  ended: ["unknown", "ended"],
};

interface PageProps<T> {
  stream: Stream<T>;
  /** What it shows, null until it is there. */
  shown: T | null;
  /** The addresses and names of the pages above it. */
  crumbs: [string, string][];
  here: string;
  title?: string;
  /** What stands there until its value does. */
  reading: string;
  /** Where to go if there is no value, and the name of that. */
  back?: [string, string];
  search?: string;
  onSearch?: (text: string) => void;
  children: (shown: T) => ComponentChildren;
}

/** A page: the bar, why its value is not there or not current, and what it shows. */
export function Page<T>({ stream, shown, title, reading, back, children, ...bar }: PageProps<T>) {
  const error = stream.error.value;
  return (
    <>
      <Bar {...bar} connection={stream.connection.value} />
      {error && <p class="banner" role="alert">{error}</p>}
      {shown === null ? <main class="empty"><h1 class="hidden">{title ?? bar.here}</h1>{!error ? reading : back && <a class="link" href={back[0]}>{back[1]}</a>}</main> : children(shown)}
    </>
  );
}

const find = (text: string) => go(`?text=${encodeURIComponent(text)}`);

function Bar({ crumbs, here, connection, search = "", onSearch = find }: Pick<PageProps<unknown>, "crumbs" | "here" | "search" | "onSearch"> & { connection: Connection }) {
  const [group, word] = CONNECTIONS[connection];
  return (
    <header class="bar">
      <a class="mark" href={UI}>
        <svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true"><path class="lines" d="M3 5h7M3 9h12M3 13h9" stroke-width="2" stroke-linecap="round" /><circle class="dot" cx="13.5" cy="5" r="1.6" /></svg>
        ssa-operator
      </a>
      {cluster.value && <span class="cluster" title="The cluster: the context of the operator's kubeconfig"><span class="hidden">Cluster </span>{cluster}</span>}
      <nav class="crumbs" aria-label="Where you are">{crumbs.map(([address, name]) => <Fragment key={address}><a href={address}>{name}</a><i aria-hidden="true">/</i></Fragment>)}<b aria-current="page">{here}</b></nav>
      <label class="find">
        <span class="hidden">Find a parent</span>
        <input id="find" type="search" placeholder="Find a parent or a message" value={search} autocomplete="off" spellcheck={false}
          onInput={(event) => onSearch(event.currentTarget.value)} />
        <kbd aria-hidden="true">/</kbd>
      </label>
      <span class={`live ${group}`} role="status"><i class="dot" aria-hidden="true" /><span class="hidden">Connection: </span><span>{word}</span></span>
      {reader.value && <button type="button" class="plain link" title={`You are ${reader.value}`} onClick={() => void signOut()}>sign out</button>}
      <button type="button" class="key" aria-label="Keys of this page" onClick={() => (help.value = true)}><kbd>?</kbd></button>
    </header>
  );
}

/** What was read, or why it is not there. */
export function Loaded<T>({ reading: { value, error }, wait, children }: { reading: Pick<Reading<T>, "value" | "error">; wait: string; children: (value: T) => ComponentChildren }) {
  if (error) return <p class="message" role="alert">{error}</p>;
  return value === null ? <p class="empty">{wait}</p> : <>{children(value)}</>;
}

/** The tabs of a page: identifier, label and how many things each has. The address names the chosen one, except `home`. */
export function Tabs({ of, tabs, chosen, home = "" }: { of: string; tabs: readonly (readonly [string, string, number])[]; chosen: string; home?: string }) {
  return (
    <div class="tabs" role="tablist" aria-label={`Parts of the ${of}`} onKeyDown={onTabKey}>
      {tabs.map(([id, label, count]) => (
        <button type="button" key={id} role="tab" id={`tab-${id}`} aria-selected={chosen === id} aria-controls="part" tabIndex={chosen === id ? 0 : -1} class={chosen === id ? "on" : ""} onClick={() => go(withQuery({ tab: id === home ? "" : id }), { replace: true })}>
          {label}{count > 0 && <> <span class="faint">{count}</span></>}
        </button>
      ))}
    </div>
  );
}

/** The arrows go from tab to tab while one of them has the focus. */
function onTabKey(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (by === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>("[role=tab]")];
  const next = all[(all.indexOf(document.activeElement as HTMLElement) + by + all.length) % all.length];
  next?.focus();
  next?.click();
}

const MARKS: Record<string, string> = { "+": "added", "-": "gone", "@": "between" };

/** A line of a difference, with its number and what is wrong in it. */
export function DiffLine({ line: { mark, text }, number = "", wrong }: { line: { mark: string; text: string }; number?: number | string; wrong?: ComponentChildren }) {
  return (
    <div class={wrong ? "wrong" : MARKS[mark] ?? ""}>
      <span class="g" aria-hidden="true">{number} {mark === "-" ? "−" : mark === "@" ? "" : mark}</span><span>{mark === "+" && <span class="hidden">now: </span>}{mark === "-" && <span class="hidden">before: </span>}{text || " "}</span>
      {wrong && <span class="problem">{wrong}</span>}
    </div>
  );
}

/** The element of a component, which `measure` gets at once, and again when its size changes. */
export function useSize<E extends Element>(measure: (element: E) => void): RefObject<E | null> {
  const box = useRef<E>(null);
  useLayoutEffect(() => {
    const element = box.current!, observer = new ResizeObserver(() => measure(element));
    measure(element);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return box;
}

export const help = signal(false);

const KEYS: [string, string][] = [
  ["j  k", "next, previous line"],
  ["Enter", "open the line"],
  ["→  ←", "unfold, fold"],
  ["+  −", "zoom the timeline that has the focus; ← → choose a mark"],
  ["/", "find"],
  ["u", "back to the overview"],
  ["Esc", "close, clear"],
  ["?", "these keys"],
];

/** The keys of a page, in a dialog. */
export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  const shown = help.value;
  useEffect(() => {
    if (shown) dialog.current?.showModal();
    else dialog.current?.close();
  }, [shown]);
  return (
    <dialog ref={dialog} aria-label="Keys" onClose={() => (help.value = false)}>
      <h2>Keys</h2>
      <dl>{KEYS.map(([key, what]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}</dl>
      <button type="button" class="button" onClick={() => (help.value = false)}>Close</button>
    </dialog>
  );
}

/** Keys of a page, beside those of every page. A key in a field is text. */
export function useKeys(keys: Record<string, (event: KeyboardEvent) => void>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const field = target.matches("input, textarea, select");
      if (event.key === "Escape" && field) {
        target.blur();
        return;
      }
      // The dialog itself tells, because its `close` event comes later than the key that closes it.
      const inDialog = document.querySelector("dialog[open]") !== null;
      if (event.metaKey || event.ctrlKey || event.altKey || field || inDialog) return;
      if (event.key === "Enter" && target.matches("a, button, summary")) return;
      const action = latest.current[event.key];
      if (action !== undefined) {
        event.preventDefault();
        action(event);
      } else if (event.key === "/") {
        event.preventDefault();
        document.getElementById("find")?.focus();
      } else if (event.key === "?") help.value = true;
      else if (event.key === "u") go("");
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

/** A chart of numbers over the last ten minutes; the text beside it says the newest. */
export function Line({ values, bars = false }: { values: number[]; bars?: boolean }) {
  const width = 200, height = 28, slots = 59;
  const most = Math.max(1, ...values);
  const x = (at: number) => (width * (slots - (values.length - 1 - at))) / slots;
  const y = (value: number) => height - 1 - (height - 4) * (value / most);
  if (bars) {
    return (
      <svg class="chart bars" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
        {values.map((value, at) => value > 0 && <rect key={at} x={x(at) - 2} y={y(value)} width="3" height={height - y(value)} />)}
        <path class="ground" d={`M0 ${height - 0.5}H${width}`} />
      </svg>
    );
  }
  const points = values.map((value, at) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`);
  const path = points.length ? `M${points.join("L")}` : "";
  return (
    <svg class="chart" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      {path && <path class="area" d={`${path}V${height}H${x(0).toFixed(1)}z`} />}
      {path && <path class="line" d={path} />}
      <path class="ground" d={`M0 ${height - 0.5}H${width}`} />
    </svg>
  );
}
