// Search where a page is opened as a file: browsers start no worker from one, so its script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inner = frame.contentWindow
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data })) // what it answers
      this.waiting = []
      const script = frame.contentDocument.createElement("script")
      script.src = url
      script.onload = () => { const sent = this.waiting; this.waiting = null; sent.forEach((data) => this.send(data)) }
      frame.contentDocument.body.append(script)
    }
    send(data) { this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data })) }
    postMessage(data) { if (this.waiting) this.waiting.push(data); else this.send(data) }
    terminate() {}
  }
}
