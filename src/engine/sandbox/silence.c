/*
 * Agents that do not answer: stopped or frozen from outside, or stuck in the kernel. Their sandbox
 * is shown as unreachable, with the time since the last answer. Nothing is ended because of
 * silence: commands continue, and so does the connection once the agent answers. Requests that
 * timed out meanwhile may have been carried out late; their effects inside are undone here.
 */
#include <signal.h>
#include "base/log.h"
#include "engine/engine_internal.h"

#define REQUEST_MS 60000
/* For requests whose time grows with a tree of files. */
#define LONG_MS 600000
/* Short: an overview of all sandboxes waits for the slowest answer. */
#define USAGE_MS 4000

static const struct {
    uint16_t type;
    int64_t limit_ms;
} limits[] = {
    {ATOLL_AGENT_USAGE, USAGE_MS},
    {ATOLL_AGENT_FILE_LIST, LONG_MS},
    {ATOLL_AGENT_FILE_REMOVE, LONG_MS},
    {ATOLL_AGENT_FILE_COMMIT, LONG_MS},
    {ATOLL_AGENT_EXEC_STDIN, ATOLL_LIMIT_SILENCE}, /* answered when the command reads its input */
    /* Requests after a reconnect: the commands and the environment are still inside, so wait for
     * them. */
    {ATOLL_AGENT_HELLO, ATOLL_LIMIT_NEVER},
    {ATOLL_AGENT_EXEC_LIST, ATOLL_LIMIT_NEVER},
    {ATOLL_AGENT_NOTE_GET, ATOLL_LIMIT_NEVER},
};

int64_t atoll_agent_limit_ms(uint16_t type)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(limits); i++)
        if (limits[i].type == type)
            return limits[i].limit_ms;
    return REQUEST_MS;
}

/* The agent of a paused sandbox is frozen and not expected to answer, as is that of a sandbox of which
 * a snapshot is made. */
bool atoll_sandbox_expects(const void *arg)
{
    const struct atoll_sandbox *s = arg;

    return s->phase != ATOLL_PHASE_FREEZING && s->phase != ATOLL_PHASE_PAUSED && !s->snapping;
}

/* Running commands may produce output at any time or never, so check that the agent is alive. */
bool atoll_sandbox_heartbeat(const void *arg)
{
    const struct atoll_sandbox *s = arg;

    if (s->phase != ATOLL_PHASE_RUNNING)
        return false;
    ATOLL_LIST_FOREACH (&s->exec_list, node)
        if (!ATOLL_CONTAINER_OF(node, struct atoll_exec, node)->ended)
            return true;
    return false;
}

void atoll_sandbox_silence(void *arg, bool silent)
{
    const struct atoll_sandbox *s = arg;

    atoll_log(silent ? ATOLL_LOG_WARN : ATOLL_LOG_INFO,
              silent ? "agent does not answer" : "agent answers again", "sandbox", s->spec.id,
              NULL);
    atoll_events_emit(s->engine, silent ? "sandbox.unreachable" : "sandbox.reachable", s, "",
                      silent ? "its agent does not answer" : "");
}

static void ignore(void *arg, const struct atoll_reply *answer)
{
    (void)arg;
    (void)answer;
}

static void close_handle(struct atoll_sandbox *s, uint16_t request, uint32_t handle)
{
    struct atoll_am_handle msg = {handle};
    struct atoll_error err;

    (void)!atoll_sandbox_ask(s, request, &atoll_am_handle_desc, &msg, ignore, NULL, &err);
}

/* Kills a command whose start timed out but succeeded later. */
static void on_exec(void *arg, const struct atoll_reply *answer)
{
    struct atoll_sandbox *s = arg;
    struct atoll_am_exec_info info;
    struct atoll_error err;
    struct atoll_am_signal kill_it = {0, SIGKILL, 1, "the daemon, because it started too late"};
    struct atoll_am_exec_ref ref;

    if (!answer->more || atoll_msg_decode(&atoll_am_exec_info_desc, answer->frame->payload,
                                          answer->frame->len, &info, &err) < 0)
        return;
    if (atoll_exec_by_number(s, info.exec))
        return;
    ref.exec = kill_it.exec = info.exec;
    (void)!atoll_sandbox_ask(s, ATOLL_AGENT_EXEC_SIGNAL, &atoll_am_signal_desc, &kill_it, ignore,
                             NULL, &err);
    (void)!atoll_rpc_tell(s->agent, ATOLL_AGENT_EXEC_FORGET, &atoll_am_exec_ref_desc, &ref);
}

void atoll_sandbox_late(void *arg, uint16_t type, const struct atoll_frame *frame)
{
    struct atoll_sandbox *s = arg;
    struct atoll_am_opened opened;
    struct atoll_am_handle watch;
    struct atoll_error err;

    switch (type) {
    case ATOLL_AGENT_FILE_OPEN:
    case ATOLL_AGENT_FILE_CREATE:
        if (atoll_msg_decode(&atoll_am_opened_desc, frame->payload, frame->len, &opened, &err) == 0)
            close_handle(s, ATOLL_AGENT_FILE_CLOSE, opened.handle);
        break;
    case ATOLL_AGENT_WATCH_START:
        if (atoll_msg_decode(&atoll_am_handle_desc, frame->payload, frame->len, &watch, &err) == 0)
            close_handle(s, ATOLL_AGENT_WATCH_STOP, watch.handle);
        break;
    case ATOLL_AGENT_EXEC_START:
        (void)!atoll_sandbox_ask(s, ATOLL_AGENT_EXEC_LIST, NULL, NULL, on_exec, s, &err);
        break;
    case ATOLL_AGENT_PAUSE:
        if (s->phase == ATOLL_PHASE_RUNNING)
            (void)!atoll_sandbox_ask(s, ATOLL_AGENT_RESUME, NULL, NULL, ignore, NULL, &err);
        break;
    default:
        break;
    }
}
