#include "api/kit/context_receive.h"

#include <stdio.h>
#include <stdlib.h>
#include "api/kit/body_pump.h"

struct receipt {
    struct atoll_api_call *call;
    struct atoll_context_upload *upload;
    char digest[65]; /* "": any */
    atoll_done_fn *done;
};

static void write_archive(void *target, const uint8_t *bytes, size_t n, atoll_done_fn *done,
                          void *done_arg)
{
    atoll_context_write(((struct receipt *)target)->upload, bytes, n, done, done_arg);
}

static void drop_archive(void *target)
{
    struct receipt *receipt = target;

    atoll_context_drop(receipt->upload);
    free(receipt);
}

static void finish_archive(void *target, struct atoll_api_call *call)
{
    struct receipt was = *(struct receipt *)target;

    free(target);
    atoll_context_finish(was.upload, *was.digest ? was.digest : NULL, was.done, call);
}

static void ready(void *arg, struct atoll_context_upload *upload, const struct atoll_error *error)
{
    static const struct atoll_body_sink sink = {write_archive, drop_archive, finish_archive};
    struct receipt *receipt = arg;
    struct atoll_api_call *call = receipt->call;

    receipt->upload = upload;
    if (error)
        free(receipt);
    atoll_body_pump_into(call, &sink, error ? NULL : receipt, error);
}

void atoll_context_receive(struct atoll_api_call *call, const char *name, const char *digest,
                           atoll_done_fn *done)
{
    struct receipt *receipt = atoll_api_alloc(sizeof(*receipt));

    receipt->call = call;
    receipt->done = done;
    (void)snprintf(receipt->digest, sizeof(receipt->digest), "%s", digest ? digest : "");
    atoll_context_open(call->engine, call->caller.tenant, name, ready, receipt);
}
