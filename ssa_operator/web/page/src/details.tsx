// The conditions and Events of an object, and the rule that judged it.
import type { Condition, Details, ObjectEvent } from "./api";
import { now, State } from "./parts";
import { age } from "./words";

/** Conditions, with the message below those that share it. */
export function Conditions({ conditions, empty }: { conditions: Condition[]; empty: string }) {
  if (conditions.length === 0) return <p class="empty">{empty}</p>;
  const shared = new Map<string, Condition[]>();
  for (const each of conditions) {
    const key = each.message || `\n${each.type}`;
    shared.set(key, [...shared.get(key) ?? [], each]);
  }
  return (
    <dl class="conditions">
      {[...shared].map(([key, alike]) => (
        <div key={key}>
          {alike.map((each) => <dt key={each.type}>{each.type} <span class="dim">{each.status}</span> <span class="faint">{each.reason}{each.lastTransitionTime && ` · ${age(each.lastTransitionTime, now.value)}`}</span></dt>)}
          <dd>{(alike[0]!.message ?? "").split("; ").map((part) => <p key={part}>{part}</p>)}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Whether an object is ready, and by which rule. */
export function Readiness({ readiness }: { readiness: NonNullable<Details["readiness"]> }) {
  return (
    <div class="judged">
      <State state={readiness.state} />
      <span class="dim">judged by {rule(readiness.rule)}</span>
      {readiness.message && <p class="dim">{readiness.message}</p>}
    </div>
  );
}

function rule(text: string) {
  const [, expression] = /^ready-when (.*)$/s.exec(text) ?? [];
  return expression === undefined ? text : <>ready-when <code>{expression}</code></>;
}

export function Events({ events, notes }: { events: ObjectEvent[]; notes: string[] }) {
  return (
    <>
      {notes.map((note) => <p class="message" key={note}>{note}</p>)}
      {events.length === 0 && notes.length === 0 && <p class="empty">There are no Events about it. Kubernetes keeps them for an hour.</p>}
      <ul class="events">
        {events.map((each) => (
          <li key={`${each.time}${each.reason}${each.note}`}>
            <span class="num faint">{age(each.time, now.value)}</span>
            <div>
              {each.type === "Warning" ? <State group="failed" word={each.reason} /> : <b>{each.reason}</b>}
              {each.count && <span class="faint"> × {each.count}</span>} <span class="faint">{each.reporter}</span>
              <p class="dim">{each.note}</p>
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}
