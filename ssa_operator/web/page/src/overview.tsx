// The overview: what needs a change comes first, in words.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Folder, type Group, type Overview, type ParentRow } from "./api";
import { Copy, GROUPS, Line, now, Page, Source, State, useKeys } from "./parts";
import { useStream } from "./read";
import { Phase } from "./rollout";
import { API, folderAddress, go, parentAddress, place, ROLLOUT, UI, withQuery } from "./router";
import { age, clock, command, located, number, plural, shortened, split } from "./words";

const PAGE = 50;
const FILTERS = ["folder", "namespace", "group", "labels", "text", "suspended", "conflict"];

export function OverviewPage() {
  const query = place.value.query;
  const filter = FILTERS.map((name): [string, string] => [name, query.get(name) ?? ""]).filter(([, value]) => value);
  const offset = Number(query.get("offset") ?? 0) || 0;
  const address = new URLSearchParams([...filter, ["offset", String(offset)], ["limit", String(PAGE)], ["stream", "1"]]).toString();
  const [typed, setTyped] = useState(query.get("text") ?? "");
  useEffect(() => {
    const wait = setTimeout(() => {
      if (typed !== (place.value.query.get("text") ?? "")) go(withQuery({ text: typed, offset: "" }), { replace: true });
    }, 150);
    return () => clearTimeout(wait);
  }, [typed]);

  const stream = useStream<Overview>(`${API}overview?${address}`);
  const last = useRef<Overview | null>(null);
  if (stream.value.value !== null) last.current = stream.value.value;
  const shown = last.current;

  const [selected, setSelected] = useState("");
  const [unfolded, setOpen] = useState<ReadonlySet<string>>(new Set());
  const toggle = (key: string) => setOpen(new Set(unfolded.has(key) ? [...unfolded].filter((each) => each !== key) : [...unfolded, key]));
  const folds = shown ? foldsOf(shown) : new Map<string, string[]>();
  const order = shown ? shownKeys(shown.order, folds, unfolded) : [];
  const at = Math.max(0, order.indexOf(selected));
  const move = (by: number) => {
    const next = Math.max(0, Math.min(order.length - 1, at + by));
    setSelected(order[next] ?? "");
    const row = document.getElementById(`row-${next}`);
    row?.scrollIntoView({ block: "nearest" });
    row?.querySelector<HTMLElement>("a, button")?.focus({ preventScroll: true });
  };
  useKeys({
    j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
    Enter: () => order[at] !== undefined && (folds.has(order[at]) ? toggle(order[at]) : go(parentAddress(order[at]))),
    Escape: () => go(""),
  });
  useEffect(() => {
    document.title = shown ? `${title(shown)} · ssa-operator` : "ssa-operator";
  });

  return (
    <Page stream={stream} shown={shown} crumbs={[]} here="Overview" reading="Waiting for the operator …" search={typed} onSearch={setTyped}>{(shown) => <>
      {!stream.error.value && shown.away && <p class="banner"><span role="alert">The API server has not answered since {clock(Date.parse(shown.away.since) / 1000)}</span>, {age(shown.away.since, now.value)} ago; what this page shows is of then. {shown.away.problem}</p>}
      <main class="overview">
        <h1 class="hidden">Overview</h1>
        <Figures shown={shown} />
        <Folders shown={shown} chosen={query.get("folder") ?? ""} />
        <section class="list" aria-label="Parents">
          <Rollouts shown={shown} />
          <Filters shown={shown} />
          <Parents shown={shown} order={order} folds={folds} open={unfolded} selected={at} onSelect={setSelected} onFold={toggle} />
          <Pages shown={shown} />
        </section>
      </main>
    </>}</Page>
  );
}

const sum = (shown: Overview, group: Group): number =>
  Object.values(shown.folders).reduce((total, folder) => total + (folder.counts?.[group] ?? 0), 0);

const unready = (shown: Overview): number => sum(shown, "failed") + sum(shown, "working") + sum(shown, "unknown");

const title = (shown: Overview): string => (unready(shown) === 0 ? "all ready" : `${unready(shown)} not ready`);

function Figures({ shown }: { shown: Overview }) {
  const { reconciles, errors, queue } = shown.figures;
  const last = (values: number[]) => number(Math.round(values.at(-1) ?? 0));
  const queued = Math.round(queue.at(-1) ?? 0), folders = Object.keys(shown.folders).length;
  const roles = [shown.leader === undefined ? "" : shown.leader ? `leader ${shown.holder ?? ""}, this replica` : `standby; leader ${shown.holder || "not known yet"}`, shown.shard ? `shard ${shown.shard}` : "", `version ${shown.version}`];
  return (
    <section class="figures" aria-label="Figures">
      <div>
        <h2>Parents</h2>
        <b>{number(shown.parents)}</b> <span class="dim">in {plural(folders, "folder")}</span>
        <p class="small states">
          {GROUPS.map((group) => sum(shown, group) > 0 && (
            <a key={group} href={`${UI}${withQuery({ group, offset: "" })}`}><State group={group} word={`${number(sum(shown, group))} ${sum(shown, group) === 1 && group === "failed" ? "needs a change" : WORDS[group]}`} /></a>
          ))}
        </p>
      </div>
      <div><h2><span>Reconciles<i> a minute</i>{queued > 0 && <i>, {plural(queued, "parent")} waiting</i>}</span><span>{last(reconciles)}</span></h2><Line values={reconciles} /></div>
      <div><h2><span>Errors<i> a minute</i></span><span>{last(errors)}</span></h2><Line values={errors} bars /></div>
      <div><h2>Operator</h2><p class="small dim">{roles.filter(Boolean).map((role) => <span key={role}>{role}</span>)}</p></div>
    </section>
  );
}

const WORDS: Record<Group, string> = { failed: "need a change", working: "in progress", unknown: "unknown", ready: "ready" };

function Folders({ shown, chosen }: { shown: Overview; chosen: string }) {
  const folders = Object.entries(shown.folders);
  const broken = folders.filter(([, folder]) => folder.problems?.length);
  const refused = folders.filter(([, folder]) => folder.crd);
  const waiting = folders.filter(([, folder]) => folder.waits);
  return (
    <nav class="folders" aria-label="Template folders">
      {broken.length + (shown.problems?.length ?? 0) > 0 && <h2>Does not load</h2>}
      {shown.problems?.map((problem) => (
        <div class="trouble" key={problem.message}>
          <State group="failed" word={problem.file ? `${problem.file}:${problem.line}` : "templates"} />
          <p class="small dim">{problem.message}</p>
        </div>
      ))}
      {broken.map(([name, folder]) => (
        <div class="trouble" key={name}>
          <a href={folderAddress(name)}><State group="failed" word={name} /></a>
          {folder.problems!.map((problem) => <p class="small dim" key={problem.message}>{problem.file && <a class="link" href={`${folderAddress(name)}?file=${encodeURIComponent(problem.file)}&line=${problem.line}`}><code>{problem.file}:{problem.line}</code></a>} {problem.message}</p>)}
          {folder.digest && <p class="small dim">The last good templates go on.</p>}
        </div>
      ))}
      {refused.length > 0 && <h2>CRD not applied</h2>}
      {refused.map(([name, folder]) => <div class="trouble" key={name}><State group="failed" word={name} /><p class="small dim">{folder.crd}</p></div>)}
      {waiting.length > 0 && <h2>Not served</h2>}
      {waiting.map(([name, folder]) => <div class="trouble" key={name}><State state="NotFound" word={name} /><p class="small dim">{folder.waits}</p></div>)}
      <h2>Folders</h2>
      <FolderLink name="" label="All" folder={{ parents: shown.parents, counts: Object.fromEntries(GROUPS.map((group) => [group, sum(shown, group)])) }} chosen={chosen} />
      {folders.map(([name, folder]) => <FolderLink key={name} name={name} label={name} folder={folder} chosen={chosen} />)}
    </nav>
  );
}

function FolderLink({ name, label, folder, chosen }: { name: string; label: string; folder: Folder; chosen: string }) {
  const counts = folder.counts ?? {};
  const text = withQuery({ folder: name, offset: "" });
  const words = GROUPS.filter((group) => counts[group]).map((group) => `${counts[group]} ${WORDS[group]}`).join(", ");
  return (
    <div class={chosen === name ? "folder on" : "folder"}>
      <a href={`${UI}${text}`} aria-current={chosen === name ? "true" : undefined} title={words}>
        <span>{label}</span><span class="num dim">{number(folder.parents ?? 0)}</span>
        <svg class="split" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">{parts(counts)}</svg>
      </a>
      {name && <p class="small"><a class="link" href={folderAddress(name)} aria-label={`Templates of ${name}`}>templates</a>{folder.digest && <span class="faint end" title={`The templates in use, ${folder.digest}, were loaded at ${folder.loaded}`}><code>{folder.digest.slice(0, 6)}</code><span class="hidden"> loaded</span> · {age(folder.loaded, now.value)}<span class="hidden"> ago</span></span>}</p>}
    </div>
  );
}

/** Each group has a visible part, however few parents it has. */
function parts(counts: Partial<Record<Group, number>>) {
  const groups = GROUPS.filter((group) => counts[group]);
  const total = groups.reduce((sum, group) => sum + counts[group]!, 0);
  const wide = groups.map((group) => Math.max(2, (100 * counts[group]!) / total));
  const scale = 100 / wide.reduce((sum, width) => sum + width, 0);
  let x = 0;
  return groups.map((group, at) => {
    const width = wide[at]! * scale;
    const part = <rect key={group} class={group} x={x} width={Math.max(0, width - 0.4)} height="4" />;
    x += width;
    return part;
  });
}

/** The rollouts that have not ended, stopped ones first. */
function Rollouts({ shown }: { shown: Overview }) {
  const found = Object.entries(shown.folders).flatMap(([name, { rollout }]) => (rollout && rollout.phase !== "Complete" ? [{ name, ...rollout }] : []));
  found.sort((one, other) => Number(other.phase === "Stopped") - Number(one.phase === "Stopped"));
  return <>{found.map(({ name, phase, message }) => <p class="rolls" key={name}><Phase phase={phase} word={name} /><span class="cut" title={message}>{message}</span><a class="link" href={`${folderAddress(name)}${ROLLOUT}`} aria-label={`Rollout of ${name}`}>see</a></p>)}</>;
}

function Chip({ name, value, children }: { name: string; value: string; children: string }) {
  const on = (place.value.query.get(name) ?? "") === value;
  return <a class={on ? "chip on" : "chip"} aria-current={on ? "true" : undefined} href={`${UI}${withQuery({ [name]: on ? "" : value, offset: "" })}`}>{children}</a>;
}

function Filters({ shown }: { shown: Overview }) {
  const query = place.value.query;
  const namespaces = shown.namespaces ?? [];
  const folder = shown.folders[query.get("folder") ?? ""];
  const namespace = query.get("namespace") ?? "", labels = query.get("labels") ?? "", group = query.get("group") ?? "";
  return (
    <div class="filter">
      <Chip name="group" value="unready">{`not ready ${number(unready(shown))}`}</Chip>
      <Chip name="suspended" value="1">{`suspended ${number(shown.suspended)}`}</Chip>
      <Chip name="conflict" value="1">{`changed by others ${number(shown.conflicts)}`}</Chip>
      {namespaces.length > 1 && (
        <select aria-label="Namespace" value={namespace} onChange={(event) => go(withQuery({ namespace: event.currentTarget.value, offset: "" }))}>
          <option value="">all namespaces</option>
          {namespaces.map((each) => <option key={each}>{each}</option>)}
        </select>
      )}
      <input class="chip labels" aria-label="Labels" placeholder="labels: app=web" value={query.get("labels") ?? ""} autocomplete="off" spellcheck={false}
        onChange={(event) => go(withQuery({ labels: event.currentTarget.value.trim(), offset: "" }))} />
      {folder !== undefined && <a class="chip" href={folderAddress(query.get("folder")!)}>templates</a>}
      {group && group !== "unready" && <a class="chip on" aria-label={`Show ${WORDS[group as Group]} and all others`} href={`${UI}${withQuery({ group: "", offset: "" })}`}>{WORDS[group as Group]} ×</a>}
      <span class="small faint end">
        {number(shown.matching)} of {number(shown.parents)} · <Copy quiet text={command("status", folder?.kind?.toLowerCase() ?? "", ...option("-n", namespace), ...option("-l", labels), ...option("--text", query.get("text")), ...option("--only", group), ...option("--only", query.has("suspended") && "suspended"), ...option("--only", query.has("conflict") && "conflict"))}>copy as command</Copy>
      </span>
    </div>
  );
}

const option = (name: string, value: string | false | null): string[] => (value ? [name, value] : []);

/** So many parents of a kind with an equal reason, in one page of the list, are one line. */
const FOLD = 4;

/** What is equal in the rows of one line; "" for a row that has its own. */
const reasonOf = (row: ParentRow): string => (row.group === "ready" ? "" : JSON.stringify([row.kind, row.folder, row.reason, shortened(row.message ?? "", row.namespace)]));

/** `Echoes`: the plural of a kind, as the folder of its parents has it. */
function kindsOf({ kind, folder }: ParentRow): string {
  const plurals = folder.split(".")[0]!;
  const same = [...kind].findIndex((letter, at) => letter.toLowerCase() !== plurals[at]);
  return same < 0 ? kind + plurals.slice(kind.length) : kind.slice(0, same) + plurals.slice(same);
}

/** The lines that stand for several parents, by their reasons. */
function foldsOf(shown: Overview): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const key of shown.order) {
    const reason = reasonOf(shown.items[key]!);
    if (reason) found.set(reason, [...(found.get(reason) ?? []), key]);
  }
  for (const [reason, keys] of found) if (keys.length < FOLD) found.delete(reason);
  return found;
}

/** The lines in order: a folded one stands where its first parent would, and has them below it while it is open. */
function shownKeys(order: string[], folds: Map<string, string[]>, open: ReadonlySet<string>): string[] {
  const folded = new Map([...folds].flatMap(([reason, keys]) => keys.map((key): [string, string] => [key, reason])));
  return order.flatMap((key) => {
    const reason = folded.get(key);
    if (reason === undefined) return [key];
    return folds.get(reason)![0] === key ? [reason, ...(open.has(reason) ? folds.get(reason)! : [])] : [];
  });
}

function Parents({ shown, order, folds, open, selected, onSelect, onFold }: { shown: Overview; order: string[]; folds: Map<string, string[]>; open: ReadonlySet<string>; selected: number; onSelect: (address: string) => void; onFold: (key: string) => void }) {
  if (shown.order.length === 0) return <p class="empty">{nothing(shown)}</p>;
  return (
    <table aria-label="Parents">
      <thead><tr><th scope="col">Parent</th><th scope="col">State</th><th scope="col" class="why">Why</th><th scope="col" class="num">Children</th><th scope="col" class="num">Since</th></tr></thead>
      <tbody>
        {order.map((key, at) => {
          const members = folds.get(key);
          return <Row key={key} at={at} address={key} row={shown.items[members ? members[0]! : key]!} on={at === selected} onSelect={onSelect} fold={members && { count: members.length, open: open.has(key), toggle: () => onFold(key) }} />;
        })}
      </tbody>
    </table>
  );
}

const nothing = (shown: Overview): string =>
  shown.parents === 0 ? "There are no parents yet. Apply one of examples/, and it appears here." :
  place.value.query.get("group") === "unready" && [...place.value.query].length === 1 ? "All parents are ready." : "No parent matches.";

interface Fold { count: number; open: boolean; toggle: () => void }

function Row({ at, address, row, on, onSelect, fold }: { at: number; address: string; row: ParentRow; on: boolean; onSelect: (address: string) => void; fold?: Fold | undefined }) {
  const flash = useFlash(`${row.reason} ${row.message} ${row.current}`);
  const { text, file, line } = located(shortened(row.message ?? "", row.namespace));
  const [first, rest] = split(text);
  return (
    <tr id={`row-${at}`} class={`${on ? "on" : ""} ${flash ? "flash" : ""}`} onMouseDown={() => onSelect(address)}>
      <td>{fold ? <button class="name fold" aria-expanded={fold.open} onClick={fold.toggle}><b>{number(fold.count)} {kindsOf(row)}</b> <span class="dim">{fold.open ? "fold" : "show"}</span></button> : <><a class="name" href={`${UI}${parentAddress(address)}`}><b>{row.name}</b> <span class="dim">{row.namespace}</span></a><span class="small">{row.kind}{row.suspended && " · suspended"}</span></>}</td>
      <td><State state={row.reason} group={row.group} /></td>
      <td class="why"><span class="first">{first}</span>{(rest || file) && <span class="fix">{file && <><Source file={file} line={line} />{rest && " · "}</>}{rest}</span>}</td>
      <td class="num dim">{!fold && row.children ? <><span aria-hidden="true">{row.current ?? 0}/{row.children}</span><span class="hidden">{row.current ?? 0} of {row.children} ready</span></> : "–"}</td>
      <td class="num dim">{(!fold && age(row.since, now.value)) || "–"}</td>
    </tr>
  );
}

/** Whether a value has just changed; one of another `key` is no change. */
export function useFlash(value: string, key = ""): boolean {
  const before = useRef({ key, value });
  const [flashing, setFlashing] = useState<string | null>(null);
  useEffect(() => {
    const changed = before.current.key === key && before.current.value !== value;
    before.current = { key, value };
    setFlashing(changed ? key : null);
    if (!changed) return;
    const wait = setTimeout(() => setFlashing(null), 2000);
    return () => clearTimeout(wait);
  }, [key, value]);
  return flashing === key;
}

function Pages({ shown }: { shown: Overview }) {
  if (shown.matching <= PAGE) return null;
  const { offset } = shown;
  const end = offset + shown.order.length;
  return (
    <p class="pages small">
      {offset > 0 && <a class="link" href={`${UI}${withQuery({ offset: String(Math.max(0, offset - PAGE)) })}`}>previous</a>}
      <span class="faint">{number(offset + 1)} to {number(end)} of {number(shown.matching)}</span>
      {end < shown.matching && <a class="link" href={`${UI}${withQuery({ offset: String(end) })}`}>next</a>}
    </p>
  );
}
