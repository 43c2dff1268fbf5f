// The rollout of a folder: the sentence, what is broken or waited for, ways out, waves, what the sets differ in, history.
import { useEffect } from "preact/hooks";
import { reader, type RolloutFile, type RolloutPage, type RolloutParent, type RolloutWave } from "./api";
import { Age, Copy, DiffLine, GROUPS, Page, State, useKeys } from "./parts";
import { useStream } from "./read";
import { API, folderAddress, go, parentAddress, place, ROLLOUT, UI, withQuery } from "./router";
import { clock, command, curl, located, number, plural } from "./words";

/** Of more parents, a stretch of the bar is filled by share. */
const CELLS = 60;

export function RolloutView({ folder }: { folder: string }) {
  const path = `${API}folders/${encodeURIComponent(folder)}/rollout`;
  const stream = useStream<RolloutPage>(`${path}?stream=1`);
  useKeys({});
  const shown = stream.value.value;
  useEffect(() => {
    document.title = `${shown ? `${wordOf(shown)} · ` : ""}rollout of ${folder} · ssa-operator`;
  });
  return (
    <Page stream={stream} shown={shown} crumbs={[[UI, "Overview"], [folderAddress(folder), folder]]} here="Rollout" title={`Rollout of ${folder}`} reading="Reading the rollout …" back={[folderAddress(folder), "The folder"]}>
      {(shown) => <Shown shown={shown} />}
    </Page>
  );
}

function Shown({ shown }: { shown: RolloutPage }) {
  const broken = (shown.waves ?? []).flatMap((wave) => wave.parents.filter((each) => each.broken));
  const files = Object.keys(shown.files ?? {}).length > 0 && <Difference shown={shown} broken={broken} />;
  const asks = Boolean(shown.stopped || shown.held);
  return (
    <main class="rollout">
      <Head shown={shown} />
      {asks && <section class="left"><Broken shown={shown} broken={broken} /><Ways shown={shown} /></section>}
      {asks && <section>{files}</section>}
      {(shown.waves?.length ?? 0) > 0 && <Waves shown={shown} />}
      {(shown.waves?.length ?? 0) > 0 && <section class="left"><Everybody shown={shown} /></section>}
      <section>{!asks && <><WaitsFor shown={shown} /><Ways shown={shown} />{files}</>}<History shown={shown} /></section>
    </main>
  );
}

const wordOf = ({ phase, held }: RolloutPage): string => (held ? "Held before the first wave" : phase === "Complete" ? "Rolled out" : phase === "Progressing" ? "Rolling out" : phase === "None" ? "No rollouts" : phase);

/** The shape, the colour and the word of a phase. */
export function Phase({ phase, word = phase }: { phase: string; word?: string }) {
  if (phase === "Stopped") return <State group="failed" word={word} />;
  if (phase === "Progressing" || phase === "Complete") return <State state={phase === "Complete" ? "Ready" : phase} word={word} />;
  return <State state={phase === "None" ? "Unknown" : "Waiting"} word={word} />;
}

const numberOf = (shown: RolloutPage, revision: string): number | undefined => shown.history?.find(({ name }) => name === revision)?.number;

/** `revision 7`, or its digest where its number is not known. */
const named = (shown: RolloutPage, revision: string): string => `revision ${numberOf(shown, revision) ?? revision}`;

const moment = (time: string | undefined): string => {
  if (!time) return "";
  const at = Date.parse(time), day = new Date(at);
  return day.toDateString() === new Date().toDateString() ? clock(at / 1000) : day.toLocaleString([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });
};

function Head({ shown }: { shown: RolloutPage }) {
  const { folder, phase, revision = "", before = "", parents = 0, updated = 0 } = shown;
  const row = shown.history?.find(({ name }) => name === revision);
  const since = phase === "Stopped" && row?.result === "Stopped" ? row.time : undefined;
  const rest = parents - updated, others = `The other ${plural(rest, "parent")} ${rest === 1 ? "keeps the revision that it is on" : "keep the revision that they are on"}`;
  return (
    <section class="head">
      <div>
        <h1>{folder}</h1>
        <p class="why" aria-live="polite"><Phase phase={phase} word={wordOf(shown)} />{since && <> for <Age time={since} /></>}: {shown.stopped || shown.held || shown.message}</p>
        {before && (
          <p class="dim">
            {shown.stopped && rest > 0 && `${others}, and none of them gets ${named(shown, revision)} while this is stopped. `}
            {shown.held && "All parents keep the revision that they are on until this is confirmed. "}
            From {named(shown, before)} <code>{before}</code> to {named(shown, revision)} <code>{revision}</code>{row && `, stored ${moment(row.created)}`}.
          </p>
        )}
        {shown.notes?.map((note) => <p key={note} class="dim">{note}</p>)}
      </div>
      <div class="facts">
        <a class="link" href={folderAddress(folder)}>templates</a>
        <a class="link" href={`${UI}?folder=${encodeURIComponent(folder)}`}>{plural(parents, "parent")}</a>
        <Copy text={phase === "None" ? curl(`${folderAddress(folder).replace(UI, API)}${ROLLOUT}`, reader.value !== "") : command("rollout", "status", folder)}>Copy as command</Copy>
      </div>
    </section>
  );
}

const keyOf = (folder: string, { namespace, name }: RolloutParent): string => [folder, namespace, name].filter(Boolean).join("/");

function Name({ folder, parent }: { folder: string; parent: RolloutParent }) {
  return <span class="cut"><a class="link" href={`${UI}${parentAddress(keyOf(folder, parent))}`}>{parent.name}</a> <span class="dim">{parent.namespace}</span></span>;
}

function Person({ shown, parent, children }: { shown: RolloutPage; parent: RolloutParent; children?: preact.ComponentChildren }) {
  return (
    <div class="person">
      <Name folder={shown.folder} parent={parent} /><span class="dim num" title={parent.revision}>{numberOf(shown, parent.revision) ?? parent.revision.slice(0, 6)}</span><State state={parent.reason} group={parent.group} /><span class="dim num"><Age time={parent.since} /></span>
      {parent.message && <p class="small">{parent.message}</p>}
      {children}
    </div>
  );
}

function Broken({ shown, broken }: { shown: RolloutPage; broken: RolloutParent[] }) {
  if (shown.held) return null;
  return <><h2>Broken <span class="faint">{plural(broken.length, "parent")} of {number(shown.updated ?? 0)} that {named(shown, shown.revision ?? "")} has reached</span></h2>{broken.map((each) => <Person key={each.name + each.namespace} shown={shown} parent={each} />)}</>;
}

function WaitsFor({ shown }: { shown: RolloutPage }) {
  const waves = shown.waves ?? [];
  const waited = waves.filter(({ state }) => state === "current").flatMap((wave) => wave.parents.filter(({ group, revision }) => group !== "ready" || revision !== shown.revision));
  if (shown.phase === "Complete" || waves.length === 0) return null;
  const settle = shown.settings?.settle ?? "";
  return (
    <>
      <h2>Waits for</h2>
      {waited.map((each) => <Person key={each.name + each.namespace} shown={shown} parent={each}>{each.fails && <p class="small faint">If it is not Ready by {moment(each.fails)}, ten times settle and at least 30s, it counts as failed.</p>}</Person>)}
      <p class="say"><b>Settle</b> {settle} {shown.settled ? `is over at ${moment(shown.settled)}` : "begins when all of the wave are Ready"}</p>
      {shown.settings?.window && <p class="say"><b>Window</b> {shown.opens ? `opens ${shown.opens}` : "is open"}</p>}
    </>
  );
}

function Ways({ shown }: { shown: RolloutPage }) {
  const { folder, undo, stopped, held } = shown;
  const back = undo ? named(shown, undo) : "";
  const goOn: [string, string, string] = ["resume", held ? "Confirm this, and begin" : stopped ? "Go on" : shown.phase === "Paused" ? "Go on" : "Go on outside of the window, once", stopped ? "the parents that broke no longer count." : ""];
  const ways = [
    shown.resumes && held && goOn,
    shown.pauses && !held && ["pause", "No further wave begins", "this one goes on."],
    undo && ["undo", held ? `Stay on ${back}` : `Back to ${back}, at once`, held ? "nothing has been changed yet." : "it waits for no window, no pause and no settle."],
    shown.resumes && !held && goOn,
  ].filter(Boolean) as [string, string, string][];
  if (ways.length === 0) return null;
  return (
    <>
      <h2>{stopped ? "Ways out" : held ? "Ways on" : "To hold it or go back"} <span class="faint">this page changes nothing; copy what you want to run</span></h2>
      {ways.map(([verb, what, more], at) => (
        <div class="way" key={verb}>
          <span><code class={at === 0 ? "on" : ""}>{command("rollout", verb, folder)}</code> <Copy quiet text={command("rollout", verb, folder)}>copy</Copy></span>
          <span><b>{what}{more ? ":" : "."}</b> {more}</span>
        </div>
      ))}
      {stopped && <div class="way"><span>Or correct the templates and save them</span><span><b>They become a new revision,</b> which begins at the canary.</span></div>}
    </>
  );
}

const STEPS = ["ready", "failed", "working", "left", "skipped"] as const;
const STEP_WORDS = { ready: "Ready", failed: "broken", working: "in progress", left: "not reached", skipped: "suspended" };

const sizeOf = (wave: RolloutWave): number => Object.values(wave.steps).reduce((sum, count) => sum + count, 0);

function Waves({ shown }: { shown: RolloutPage }) {
  const waves = shown.waves ?? [], { parents = 0, updated = 0, ready = 0, settings = {} } = shown;
  return (
    <section class="wide waves">
      <h2>Waves <span class="faint">{number(updated)} of {plural(parents, "parent")} on {named(shown, shown.revision ?? "")}, {number(ready)} Ready</span> <span class="faint end">{Object.entries(settings).map(([name, value]) => `${name} ${value}`).join(" · ")}</span></h2>
      <ol>
        {waves.map((wave) => (
          <li key={wave.name} style={{ flexGrow: sizeOf(wave) }}>
            <div class="cells" aria-hidden="true">{STEPS.flatMap((step) => {
              const count = wave.steps[step] ?? 0;
              return parents > CELLS ? (count ? [<i key={step} class={step} style={{ flexGrow: count }} />] : []) : Array.from({ length: count }, (_, at) => <i key={step + at} class={step} />);
            })}</div>
            <div class="label">{wave.name}</div>
            <div class="small label">{STEPS.filter((step) => wave.steps[step]).map((step) => step === "left" ? <span key={step} class="dim">{number(wave.steps[step]!)} {STEP_WORDS[step]}</span> : <State key={step} group={step === "skipped" ? "unknown" : step} word={`${number(wave.steps[step]!)} ${STEP_WORDS[step]}`} />)}</div>
          </li>
        ))}
      </ol>
      <p class="hidden">{waves.map((wave) => `${wave.name}: ${STEPS.filter((step) => wave.steps[step]).map((step) => `${wave.steps[step]} ${STEP_WORDS[step]}`).join(", ")}`).join("; ")}</p>
    </section>
  );
}

function Everybody({ shown }: { shown: RolloutPage }) {
  return (
    <>
      <div class="every headline small faint"><span>Wave</span><span>Parents</span><span class="num">Revision</span><span>State</span></div>
      {(shown.waves ?? []).map((wave) => {
        const all = sizeOf(wave), groups = GROUPS.filter((group) => wave.counts[group]);
        const well = wave.state !== "current" && wave.state !== "reached" ? true : groups.every((group) => group === "ready");
        const first = wave.parents.slice(0, 3).map(({ name }) => name).join(", ");
        return (
          <details key={wave.name + wave.state} open={!well}>
            <summary class="every">
              <b>{wave.name}</b><span class="dim cut">{first}{all > 3 && ` and ${number(all - 3)} more`}</span>
              <span class="num">{wave.revisions.map((each) => numberOf(shown, each) ?? (each.slice(0, 6) || "–")).join(", ")}</span>
              <span>{wave.state === "skipped" ? <State state="Unknown" word={`${number(all)} suspended`} /> : groups.map((group) => <State key={group} group={group} word={`${number(wave.counts[group]!)} ${GROUP_WORDS[group]}`} />)}</span>
            </summary>
            {wave.parents.map((each) => <Person key={each.namespace + each.name} shown={shown} parent={each} />)}
            {all > wave.parents.length && <p class="small faint">and {number(all - wave.parents.length)} more</p>}
          </details>
        );
      })}
    </>
  );
}

const GROUP_WORDS = { failed: "not Ready", working: "in progress", unknown: "unknown", ready: "Ready" };

function Difference({ shown, broken }: { shown: RolloutPage; broken: RolloutParent[] }) {
  const files = Object.entries(shown.files ?? {});
  const blamed = broken.map(({ name, message = "" }) => ({ name, ...located(message) }));
  const chosen = files.find(([name]) => name === place.value.query.get("file")) ?? files.find(([name]) => blamed.some(({ file }) => file === name)) ?? files.find(([name]) => !/(^|\/)_/.test(name)) ?? files[0]!;
  const count = (file: RolloutFile, mark: string) => file.lines?.filter((line) => line.mark === mark).length ?? 0;
  let line = 0;
  return (
    <>
      <h2>What the sets differ in <span class="faint">{named(shown, shown.before ?? "")} to {named(shown, shown.revision ?? "")}, {plural(files.length, "file")}</span></h2>
      <nav class="tabs" aria-label="Files that differ">
        {files.map(([name, file]) => (
          <a key={name} class={name === chosen[0] ? "on" : ""} aria-current={name === chosen[0] ? "true" : undefined} href={`${UI}${withQuery({ file: name })}`} onClick={(event) => { event.preventDefault(); go(withQuery({ file: name }), { replace: true }); }}>
            {name.startsWith("_") ? name : name.slice(name.indexOf("/") + 1)} <span class="dim">{file.removed ? "removed" : file.added ? "new" : file.lines ? `+${count(file, "+")} −${count(file, "-")}` : "changed"}</span>
          </a>
        ))}
      </nav>
      {chosen[1].hidden && <p class="say dim">Its values are not shown.</p>}
      <div class="code compared" tabIndex={0} aria-label={`The difference of ${chosen[0]}`}>
        {chosen[1].lines?.map((each, at) => {
          if (each.mark === "@") line = Number(each.text.replace(/\D/g, "")) - 1;
          else if (each.mark !== "-") line += 1;
          const here = each.mark === "+" || each.mark === " ";
          const wrong = here && blamed.find(({ file, line: of }) => file === chosen[0] && of === line);
          return <DiffLine key={at} line={each} number={here ? line : ""} wrong={wrong && <State group="failed" word={`${wrong.name}: ${wrong.text}`} />} />;
        })}
      </div>
    </>
  );
}

function History({ shown }: { shown: RolloutPage }) {
  if (!shown.history?.length) return null;
  const text = command("rollout", "history", shown.folder);
  return (
    <>
      <h2>History <span class="faint end"><code>{text}</code> <Copy quiet text={text}>copy</Copy></span></h2>
      <ol class="revisions">
        {shown.history.map((each) => {
          const now = each.name === shown.revision;
          return (
            <li key={each.name} class={now ? "on" : ""} aria-current={now ? "true" : undefined}>
              <b class="num">{each.number}</b><code>{each.name}</code><span class="dim">{moment(each.created)}</span>
              <span class="cut">{now && shown.phase !== "Complete" ? <Phase phase={shown.phase} word={wordOf(shown)} /> : each.result === "Succeeded" || each.result === "Stopped" ? <Phase phase={each.result === "Stopped" ? "Stopped" : "Complete"} word={each.result} /> : each.result} <span class="dim">{each.time && moment(each.time)}</span></span>
            </li>
          );
        })}
      </ol>
    </>
  );
}
