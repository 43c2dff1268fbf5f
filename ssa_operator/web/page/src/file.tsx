// The text of a template file: its problems, and what it renders for a parent.
import { useEffect, useRef } from "preact/hooks";
import type { FolderPage, Overview, RenderedFile, TemplateFile } from "./api";
import { Loaded, State } from "./parts";
import { type Reading, useBeat, useRead } from "./read";
import { API, go, place, UI, withQuery } from "./router";
import { plural } from "./words";

/** Seconds after which the parents are listed again, and one is rendered again: no stream carries what they change. */
const LIST_BEAT = 20, RENDER_BEAT = 15;

/** Parents that can be chosen without knowing their name. */
const CHOICES = 100;

interface FileProps { name: string; file: TemplateFile; shown: FolderPage }

/** A file, and beside it what it renders for the parent of the address. */
export function FileView({ name, file, shown }: FileProps) {
  const { folder, digest = "" } = shown;
  const parents = useRead<Overview>(shown.kind ? `${API}overview?folder=${encodeURIComponent(folder)}&limit=${CHOICES}` : "", `${useBeat(LIST_BEAT)}`);
  const chosen = place.value.query.get("parent") ?? "";
  const address = chosen ? `${API}parents/${[folder, ...chosen.split("/")].map(encodeURIComponent).join("/")}/rendered?file=${encodeURIComponent(name)}` : "";
  const beat = useBeat(RENDER_BEAT);
  const rendered = useRead<RenderedFile>(address, `${digest} ${shown.loads} ${file.problems?.map((each) => each.message).join()} ${beat}`);
  // A file that doesn't load has other lines than the one that is in use.
  const inUse = shown.loads || !file.difference;
  const names = [...new Set([...(parents.value?.order ?? []).map((key) => key.split("/").slice(1).join("/")), ...(chosen ? [chosen] : [])])].sort();
  return (
    <>
      <section class="text" aria-label={name} tabIndex={0}>
        <div class="above small">
          {names.length > 0 && (
            <label class="end">Render for{" "}
              <select value={chosen} onChange={(event) => go(withQuery({ parent: event.currentTarget.value }), { replace: true })}>
                <option value="">no parent</option>
                {names.map((each) => <option key={each}>{each}</option>)}
              </select>
            </label>
          )}
        </div>
        <Lines name={name} file={file} rendered={inUse ? rendered.value : null} parent={chosen} />
      </section>
      {chosen && <Rendered parent={chosen} inUse={inUse} rendered={rendered} />}
    </>
  );
}

interface LinesProps { name: string; file: TemplateFile; rendered: RenderedFile | null; parent: string }

/** Each problem stands below its line; the line of the address is marked. */
function Lines({ name, file, rendered, parent }: LinesProps) {
  const box = useRef<HTMLDivElement>(null);
  const wanted = Number(place.value.query.get("line") ?? file.problems?.[0]?.line ?? 0);
  useEffect(() => {
    box.current?.querySelector(".marked")?.scrollIntoView({ block: "center" });
  }, [wanted, name]);
  const problems = [
    ...(file.problems ?? []).map((each) => ({ ...each, waits: false })),
    ...(rendered?.problems ?? []).map((each) => ({ ...each, message: `for ${parent}: ${each.message}`, waits: false })),
    ...[...(rendered?.waits ?? []), ...(rendered?.documents ?? []).flatMap(({ message, line }) => (message ? [{ message, line }] : []))].map((each) => ({ ...each, message: `for ${parent}: ${each.message}`, waits: true })),
  ];
  const wrong = new Set(problems.filter((each) => !each.waits).map((each) => each.line));
  const beyond = problems.filter((each) => each.line > file.lines.length);
  return (
    <>
      {file.hidden && <p class="message">Its values are not shown, because they may be those of a Secret.</p>}
      {file.removed && <p class="message">The file is gone. The last good templates still have it.</p>}
      <div class="code numbered" ref={box}>
        {file.lines.map((line, index) => (
          <div key={index} class={`${wrong.has(index + 1) ? "wrong" : ""} ${wanted === index + 1 ? "marked" : ""}`}>
            <span class="g">{index + 1}</span>
            <span>{line || " "}</span>
            {problems.filter((each) => each.line === index + 1).map((each) => <p key={each.message} class={each.waits ? "problem waits" : "problem"}>{each.message}</p>)}
          </div>
        ))}
        {beyond.map((problem) => <div key={problem.message} class="wrong marked"><span class="g">{problem.line}</span><p class="problem">{problem.message}</p></div>)}
      </div>
    </>
  );
}

/** What the file renders for a parent; a line leads to the one of the file that writes it. */
function Rendered({ parent, inUse, rendered }: { parent: string; inUse: boolean; rendered: Reading<RenderedFile> }) {
  const wanted = Number(place.value.query.get("line") ?? 0);
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    box.current?.querySelector(".matched")?.scrollIntoView({ block: "center" });
  }, [wanted, rendered.value === null]);
  return (
    <section class="text rendered" aria-label={`Rendered for ${parent}`} tabIndex={0} ref={box}>
      <div class="above small">
        <b>Rendered for {parent}</b>
        {!inUse && <State group="working" word="by the last good templates" />}
        <button type="button" class="plain end" aria-label="Close the render" onClick={() => go(withQuery({ parent: "" }), { replace: true })}>×</button>
      </div>
      <Loaded reading={rendered} wait="Rendering it …">{(value) => (
        <>
          {value.elsewhere > 0 && <p class="message problem">{plural(value.elsewhere, "problem")} in other files {value.elsewhere === 1 ? "keeps" : "keep"} this parent from being ready.</p>}
          {[...value.problems.map((each) => [each, "problem"] as const), ...value.waits.map((each) => [each, "waits"] as const)].map(([each, kind]) => (
            <p key={each.message} class={`message ${kind}`}>line {each.line}: {each.message}</p>
          ))}
          {value.notes.map((note) => <p class="message" key={note}>{note}</p>)}
          {value.documents.length + value.problems.length + value.waits.length === 0 && <p class="empty">The file renders nothing for this parent.</p>}
          {value.documents.map((document) => (
            <div key={`${document.kind} ${document.name}`}>
              <h2>{document.kind} {document.name}</h2>
              {document.message && <p class="message waits">{document.message}</p>}
              {document.lines.length > 0 && <div class="code numbered">
                {document.lines.map((line, at) => (
                  <div key={at} class={line.line && line.line === wanted ? "matched" : ""}>
                    {line.line ? <a class="g" href={`${UI}${withQuery({ line: String(line.line) })}`}>{line.line}</a> : <span class="g" />}
                    <span>{line.text}</span>
                  </div>
                ))}
              </div>}
            </div>
          ))}
        </>
      )}</Loaded>
    </section>
  );
}
