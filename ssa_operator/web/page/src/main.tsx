import { render } from "preact";
import { FolderView } from "./folder";
import { OverviewPage } from "./overview";
import { ParentPage } from "./parent";
import { Help } from "./parts";
import { RolloutView } from "./rollout";
import { onLink, place, ROLLOUT, UI } from "./router";

function App() {
  const { path } = place.value;
  const [room, ...rest] = path.split("/");
  const key = rest.map(decodeURIComponent).join("/");
  return (
    <>
      {room === "parents" && key ? <ParentPage key={key} address={key} />
        : room === "folders" && key.endsWith(ROLLOUT) ? <RolloutView key={key} folder={key.slice(0, -ROLLOUT.length)} />
        : room === "folders" && key ? <FolderView key={key} folder={key} />
        : <OverviewPage key="overview" />}
      <Help />
    </>
  );
}

// The browser reads the icon's address again when that of the page changes, and so it may not be relative to it.
document.querySelector<HTMLLinkElement>("link[rel=icon]")!.href = `${UI}assets/icon.svg`;
document.addEventListener("click", onLink);
render(<App />, document.getElementById("app")!);
