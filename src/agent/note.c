/*
 * A note that the daemon stores in the agent for its successor: data of the sandbox that must not
 * be written to the host's disk, such as secrets in its environment. The agent does not interpret
 * it.
 */
#include <errno.h>
#include "agent/agent_internal.h"

int atoll_agent_on_note_put(struct atoll_agent *a, uint32_t request, const void *message,
                            struct atoll_error *err)
{
    const struct atoll_am_data *msg = message;
    int r;

    (void)request;
    atoll_buf_done(&a->note);
    atoll_buf_init(&a->note, ATOLL_AGENT_DATA_MAX);
    r = atoll_buf_append(&a->note, msg->data.data, msg->data.len);
    return r < 0 ? atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r, "the note is too long") : 0;
}

int atoll_agent_on_note_get(struct atoll_agent *a, uint32_t request, const void *message,
                            struct atoll_error *err)
{
    struct atoll_am_data msg = {{atoll_buf_head(&a->note), atoll_buf_size(&a->note)}};

    (void)message;
    (void)err;
    atoll_agent_reply(a, request, &atoll_am_data_desc, &msg);
    return ATOLL_AGENT_ANSWERED;
}
