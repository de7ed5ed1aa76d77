// Part of one leg's OpenCode: asks its bridge before each model call of the session, and before each tool.
//
// `chat.params` is awaited before a request is made, when all tools of the step before have ended: an exact boundary
// (measured with 1.18.33; a session that is aborted while it waits here makes no further request). It comes again for
// each retry of a request, `messages.transform` only once a step: so they are told apart. A bridge that is gone lets
// nothing pass.
import net from "node:net"

const WAY = "@WAY@"

const ask = (name, said) =>
  new Promise((resolve, reject) => {
    let heard = ""
    const gone = () => (heard.endsWith("\n") ? resolve(JSON.parse(heard.trim() || "{}")) : reject(new Error("the driver of this leg is gone")))
    const way = net.createConnection({ path: WAY })
    way.setEncoding("utf8")
    way.on("connect", () => way.write(name + "\n" + JSON.stringify(said) + "\0"))
    way.on("data", (data) => {
      heard += data
    })
    way.on("end", gone)
    way.on("close", gone)
    way.on("error", gone)
  })

export const Relay = async () => {
  const told = new Set() // ids of parts that the bridge was told of
  const steps = new Map() // session -> what its next request follows

  const news = (messages) => {
    const found = []
    for (const { info, parts } of messages)
      for (const part of parts ?? []) {
        const ended = part.type === "tool" && ["completed", "error"].includes(part.state?.status)
        if ((!ended && part.type !== "step-finish") || told.has(part.id)) continue
        told.add(part.id)
        // an answer's figures and the ends of its tools, as they are stored: events may come later than this
        found.push(ended ? { ...part, state: { ...part.state, output: undefined, size: Buffer.byteLength(String(part.state.output ?? part.state.error ?? "")) } } : { ...part, model: info.modelID })
      }
    return found
  }

  return {
    "experimental.chat.messages.transform": async (_, out) => {
      const session = out.messages.at(-1)?.info?.sessionID
      if (session) steps.set(session, news(out.messages))
    },
    "chat.params": async (call) => {
      const agent = call.agent?.name ?? call.agent
      const parts = steps.get(call.sessionID)
      steps.delete(call.sessionID)
      await ask("model", { session: call.sessionID, agent, fresh: parts !== undefined, parts: parts ?? [] })
    },
    "tool.execute.before": async (call) => {
      const said = await ask("tool", { session: call.sessionID, tool: call.tool, id: call.callID })
      if (said.deny) throw new Error(said.deny)
    },
    // the server's password is not for tools
    "shell.env": async (_, out) => {
      out.env.OPENCODE_SERVER_PASSWORD = ""
      out.env.OPENCODE_CONFIG_CONTENT = ""
    },
  }
}
