import { render } from "preact";
import { FolderView } from "./folder";
import { OverviewPage } from "./overview";
import { ParentPage } from "./parent";
import { Help } from "./parts";
import { onLink, place, TIMELINE } from "./router";
import { FolderTimelinePage } from "./timeline";

function App() {
  const { path } = place.value;
  const [room, ...rest] = path.split("/");
  const key = rest.map(decodeURIComponent).join("/");
  return (
    <>
      {room === "parents" && key ? <ParentPage key={key} address={key} />
        : room === "folders" && key.endsWith(TIMELINE) ? <FolderTimelinePage key={key} folder={key.slice(0, -TIMELINE.length)} />
        : room === "folders" && key ? <FolderView key={key} folder={key} />
        : <OverviewPage key="overview" />}
      <Help />
    </>
  );
}

document.addEventListener("click", onLink);
render(<App />, document.getElementById("app")!);
