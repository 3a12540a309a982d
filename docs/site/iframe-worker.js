// A page that is opened from the disk may not start workers, which the search needs.
// There, a hidden frame runs the worker's script instead.
(() => {
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = this.onerror = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.document.open(); // or a browser may still replace the empty document
      inner.document.write("<!doctype html><body></body>");
      inner.document.close();
      inner.postMessage = (data) => this.receive(data);
      this.ready = this.load(new URL(url, location.href).href);
    }

    load(url) {
      return new Promise((resolve) => {
        const script = this.frame.contentDocument.createElement("script");
        script.src = url;
        script.onload = resolve;
        script.onerror = () => this.tell("error", new ErrorEvent("error", { filename: url }));
        this.frame.contentDocument.body.append(script);
      });
    }

    receive(data) {
      setTimeout(() => this.tell("message", new MessageEvent("message", { data })));
    }

    tell(kind, event) {
      if (!this.frame.isConnected) return;
      this[`on${kind}`]?.(event);
      this.dispatchEvent(event);
    }

    async postMessage(data) {
      const copy = structuredClone(data);
      await this.ready;
      const inner = this.frame.contentWindow;
      inner?.dispatchEvent(new inner.MessageEvent("message", { data: copy }));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.Worker = FrameWorker;
})();
