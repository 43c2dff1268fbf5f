// What an apply would change now.
import { useState } from "preact/hooks";
import { type ChangedField, type Changes, type Group, type ObjectChange } from "./api";
import { Loaded, now, Source, State } from "./parts";
import { useRead } from "./read";
import { age, plural } from "./words";

const RESULTS: Record<string, [Group, string]> = {
  created: ["ready", "create"],
  configured: ["working", "change"],
  recreated: ["working", "recreate"],
  pruned: ["failed", "prune"],
  waiting: ["unknown", "wait"],
  failed: ["failed", "fail"],
  unchanged: ["ready", "keep"],
};

const differs = (each: ObjectChange): boolean => each.result !== "unchanged" || each.adopted || each.left.length > 0 || each.message !== "";

/** What an apply of a child would change now. */
export function ChildChanges({ path, child, version }: { path: string; child: string; version: string }) {
  const found = useRead<Changes>(`${path}/would-change?child=${encodeURIComponent(child)}`, version);
  return <Loaded reading={found} wait="Asking the API server …">{(changes) => <ChangeList changes={changes} nothing="An apply now would change nothing in it." />}</Loaded>;
}

/** What an apply of a parent would change now. */
export function ParentChanges({ path }: { path: string }) {
  // A dry run of all children is not repeated by itself.
  const [round, setRound] = useState(0);
  const found = useRead<Changes>(`${path}/would-change`, String(round));
  return (
    <Loaded reading={found} wait="Asking the API server …">{(changes) => (
      <div aria-live="polite">
        <h2 class="part">Now <span class="faint">· checked {age(new Date(found.at).toISOString(), now.value)} ago ·</span> <button type="button" class="plain link" onClick={() => setRound(round + 1)}>check again</button></h2>
        <ChangeList changes={changes} nothing="An apply now would change nothing." />
      </div>
    )}</Loaded>
  );
}

function ChangeList({ changes, nothing }: { changes: Changes; nothing: string }) {
  const shown = changes.objects.filter(differs), kept = changes.objects.length - shown.length;
  const quiet = shown.length === 0 && changes.problems.length === 0 && changes.waits.length === 0;
  return (
    <>
      {changes.notes.map((note) => <p class="message" key={note}>{note}</p>)}
      {changes.problems.map((problem) => <p class="message" key={problem}><State group="failed" word="fail" /> {problem}</p>)}
      {changes.waits.map((wait) => <p class="message" key={wait}><State state="Waiting" word="wait" /> {wait}</p>)}
      {quiet && <p class="calm"><State group="ready" word={nothing} /></p>}
      {shown.map((each) => <OneChange key={`${each.group}/${each.kind}/${each.namespace}/${each.name}`} change={each} />)}
      {!quiet && kept > 0 && <p class="calm faint">{plural(kept, "object")} would stay as {kept === 1 ? "it is" : "they are"}.</p>}
    </>
  );
}

function OneChange({ change }: { change: ObjectChange }) {
  const [group, word] = RESULTS[change.result] ?? ["unknown", change.result];
  const lines = change.diff.split("\n").filter((line) => line && !line.startsWith("---") && !line.startsWith("+++"));
  return (
    <section class="change" aria-label={`${word} ${change.kind} ${change.name}`}>
      <div class="what"><State group={group} word={word} /> <b>{change.kind} {change.name}</b><span class="faint small end">{change.file && <Source file={change.file} line={change.line} />}</span></div>
      {change.message && <p class="dim">{change.message}</p>}
      {change.adopted && <p class="dim">The operator adopts the object.</p>}
      {change.fields.map((field) => <Field key={field.field} field={field} />)}
      {change.left.map((left) => <p class="dim small" key={left.field}><code>{left.field}</code> is no longer rendered and stays, because {names(left.managers)} owns it, too</p>)}
      {change.fields.length === 0 && lines.length > 0 && (
        <details open={lines.length <= 24 || change.result === "created"}>
          <summary class="small dim">{plural(lines.filter((line) => !line.startsWith("@")).length, "line")}</summary>
          <pre class="diff mono">{lines.map((line, at) => <span key={at} class={line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "faint"}>{line}{"\n"}</span>)}</pre>
        </details>
      )}
    </section>
  );
}

function Field({ field }: { field: ChangedField }) {
  return (
    <div class="field">
      <code>{field.field}</code>
      <div class="values mono">
        {field.before !== null && <p class="del"><span aria-hidden="true">− </span><span class="hidden">before: </span>{value(field.before)}</p>}
        {field.after !== null && <p class="add"><span aria-hidden="true">+ </span><span class="hidden">after: </span>{value(field.after)}</p>}
      </div>
      <p class="small faint">{cause(field)}</p>
    </div>
  );
}

const value = (each: unknown): string => (typeof each === "string" ? each : JSON.stringify(each));

const names = (managers: { manager: string }[]): string => managers.map(({ manager }) => manager).join(" and ") || "the API server";

function cause(field: ChangedField) {
  const where = field.file && <> · <Source file={field.file} line={field.line} /></>;
  switch (field.cause) {
    case "taken": return <>{names(field.managers)} wrote it; the apply replaces it{where}</>;
    case "adopted": return <>only {names(field.managers)} wrote it, so it is removed</>;
    case "server": return <>changed by the API server</>;
    default: return field.after === null ? <>no longer rendered</> : <>rendered{where}</>;
  }
}
