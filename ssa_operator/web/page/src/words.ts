// Times, counts and commands as people read them.

/** How long ago a time is: `4 s`, `12 min`, `3 h`, `5 d`; "" without one. */
export function age(time: string | undefined, now: number): string {
  if (!time) return "";
  const seconds = Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
  if (Number.isNaN(seconds)) return "";
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

/** The time of day, of seconds since 1970. */
export const clock = (at: number): string => new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

/** `1 034`: thousands are set apart by a thin space. */
export const number = (value: number): string => String(value).replace(/\B(?=(\d{3})+$)/g, "\u2009");

export const plural = (count: number, word: string): string => {
  if (count === 1) return `1 ${word}`;
  const many = word.endsWith("y") && !/[aeiou]y$/.test(word) ? `${word.slice(0, -1)}ies` : /(s|x|ch|sh)$/.test(word) ? `${word}es` : `${word}s`;
  return `${number(count)} ${many}`;
};

/** A word as a shell takes it. */
export const shellWord = (word: string): string => (/^[\w./:@=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

const commandOf = (...words: string[]): string => words.filter(Boolean).map(shellWord).join(" ");

export const command = (...words: string[]): string => commandOf("ssa-operator", ...words);

/** A command of kubectl about an object of a namespace, "" for one of the whole cluster. */
export const kubectl = (namespace: string | undefined, ...words: string[]): string => commandOf("kubectl", ...words, ...(namespace ? ["-n", namespace] : []));

/** `Deployment.apps`: a kind as kubectl takes it. */
export const kindOf = ({ kind, group }: { kind: string; group?: string }): string => (group ? `${kind}.${group}` : kind);

/** What reads an address of the operator, for what it alone knows. */
export const curl = (path: string, token: boolean): string => `curl -s ${token ? '-H "Authorization: Bearer $TOKEN" ' : ""}${shellWord(location.origin + path)}`;

/** The kind and the name of a label, such as `Deployment/web` or `ConfigMap default/settings`. */
export function labelParts(label: string): [string, string] {
  const found = /^([A-Z]\w*)[ /](.+)$/.exec(label);
  return found ? [found[1]!, found[2]!] : ["", label];
}

/** A message without the template line that it begins with, and that line. */
export function located(message: string): { text: string; file?: string; line?: number } {
  const found = /^([\w./-]+):(\d+): /.exec(message);
  return found ? { text: message.slice(found[0].length), file: found[1]!, line: Number(found[2]) } : { text: message };
}

/** The first cause of a message, and what follows it: what to do, without the API server's own words, and what else is wrong. */
export function split(message: string): [string, string] {
  const at = message.indexOf("; ");
  return at < 0 ? [message, ""] : [message.slice(0, at), message.slice(at + 2).replace(/ \([^)]*?: (Invalid value|Forbidden|Required value)\b.*$/s, "")];
}

/** A message without the namespace of the parent, which the page names above. */
export const shortened = (message: string, namespace: string | undefined): string =>
  (namespace ? message.replace(/\b([A-Z]\w{0,63}) ([a-z0-9.-]{1,63})\//g, (whole, kind, found) => (found === namespace ? `${kind} ` : whole)) : message);
