#include "api/kit/list_reply.h"

struct atoll_list_reply *atoll_list_reply_new(struct atoll_api_call *call, const char *name,
                                              char closing)
{
    struct atoll_list_reply *l = atoll_api_alloc(sizeof(*l));

    l->call = call;
    l->closing = closing;
    l->bare = !name;
    atoll_api_reply_init(&l->buf, &l->out);
    if (name)
        atoll_json_open(&l->out, NULL, '{');
    atoll_json_open(&l->out, name, closing == ']' ? '[' : '{');
    return l;
}

void atoll_list_reply_done(void *arg, const struct atoll_error *error)
{
    struct atoll_list_reply *l = arg;

    if (error) {
        atoll_api_fail(l->call, error);
        atoll_buf_done(&l->buf);
    } else {
        atoll_json_close(&l->out, l->closing);
        if (!l->bare)
            atoll_json_close(&l->out, '}');
        atoll_api_reply(l->call, 200, &l->out);
    }
    free(l);
}
