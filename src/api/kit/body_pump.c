#include "api/kit/body_pump.h"

#include <errno.h>
#include <stdlib.h>

static void end(struct atoll_body_pump *pump, const struct atoll_error *error)
{
    pump->call->on_gone = NULL;
    pump->ended(pump->arg, error);
}

static void end_canceled(struct atoll_body_pump *pump)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_CANCELED, ECANCELED, "the client went away");
    end(pump, &error);
}

static void gone(struct atoll_api_call *call)
{
    struct atoll_body_pump *pump = call->state;

    pump->gone = true;
    if (!pump->writing)
        end_canceled(pump);
}

static void written(void *arg, const struct atoll_error *error)
{
    struct atoll_body_pump *pump = arg;
    struct atoll_error copy; /* the error may be a part of what is dropped at the end */

    pump->writing = false;
    if (error) {
        copy = *error;
        end(pump, &copy);
    } else if (pump->gone)
        end_canceled(pump);
    else
        atoll_http_body_resume(pump->call->req);
}

static void on_data(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    struct atoll_body_pump *pump = arg;

    /* Paused before the write: its callback may come first, and end everything. */
    atoll_http_body_pause(req);
    pump->writing = true;
    pump->write(pump->arg, bytes, n, written, pump);
}

static void on_end(void *arg, struct atoll_http_request *req)
{
    (void)req;
    end(arg, NULL);
}

void atoll_body_pump_start(struct atoll_body_pump *pump, struct atoll_api_call *call,
                           void (*write)(void *arg, const uint8_t *bytes, size_t n,
                                         atoll_done_fn *done, void *done_arg),
                           void (*ended)(void *arg, const struct atoll_error *error), void *arg)
{
    *pump = (struct atoll_body_pump){.call = call, .write = write, .ended = ended, .arg = arg};
    call->state = pump;
    call->on_gone = gone;
    atoll_http_body_stream(call->req, on_data, on_end, pump);
}

struct filling {
    struct atoll_body_pump pump;
    const struct atoll_body_sink *sink;
    void *target;
};

static void fill(void *arg, const uint8_t *bytes, size_t n, atoll_done_fn *done, void *done_arg)
{
    struct filling *f = arg;

    f->sink->write(f->target, bytes, n, done, done_arg);
}

static void filled(void *arg, const struct atoll_error *error)
{
    struct filling was = *(struct filling *)arg;

    free(arg);
    if (error) {
        was.sink->drop(was.target);
        atoll_api_fail(was.pump.call, error);
    } else {
        was.sink->finish(was.target, was.pump.call);
    }
}

void atoll_body_pump_into(struct atoll_api_call *call, const struct atoll_body_sink *sink,
                          void *target, const struct atoll_error *error)
{
    struct filling *f;

    if (error) {
        atoll_api_fail(call, error);
        return;
    }
    if (!call->req) {
        sink->drop(target);
        atoll_api_drop(call);
        return;
    }
    f = atoll_api_alloc(sizeof(*f));
    f->sink = sink;
    f->target = target;
    atoll_body_pump_start(&f->pump, call, fill, filled, f);
}
