/*
 * The answer of an upstream, as it is passed on to the client.
 */
#include <errno.h>
#include <strings.h>
#include "net/proxy_internal.h"

static bool is_for_us(const struct atoll_proxy_exchange *x, const char *name)
{
    const char *other, *value;

    if (atoll_proxy_is_hop(name) || strcasecmp(name, "content-type") == 0 ||
        strcasecmp(name, "date") == 0)
        return true;
    for (size_t at = 0; atoll_http1_answer_next(&x->answer, &at, &other, &value);)
        if (strcasecmp(other, "connection") == 0 && atoll_http_list_has(value, name))
            return true;
    return false;
}

bool atoll_proxy_answer_copy(struct atoll_proxy_exchange *x)
{
    const char *name, *value;

    for (size_t at = 0; atoll_http1_answer_next(&x->answer, &at, &name, &value);) {
        if (is_for_us(x, name) ||
            (x->hooks->response_header && !x->hooks->response_header(x->arg, name, &value)))
            continue;
        if (atoll_http_set_header(x->req, name, value) < 0)
            return false;
    }
    return true;
}

/* Events of the parser. They may write to the client, but never end the exchange. */

static bool on_head(void *arg, int status, int64_t length)
{
    struct atoll_proxy_exchange *x = arg;

    if (!atoll_proxy_answer_copy(x))
        return false;
    x->begun = true;
    x->outcome.status = status;
    atoll_http_begin(x->req, status, atoll_http1_answer_field(&x->answer, "content-type"), length);
    return true;
}

static bool on_body(void *arg, const uint8_t *bytes, size_t n)
{
    struct atoll_proxy_exchange *x = arg;

    x->outcome.out_bytes += n;
    /* If the client has disconnected, on_close reports it. */
    if (atoll_http_write(x->req, bytes, n) == -ENOBUFS)
        return false;
    if (atoll_http_pending(x->req) > ATOLL_HTTP_HIGH_WATER)
        atoll_proxy_conn_pause(x->conn);
    return true;
}

static const struct atoll_http1_answer_events events = {.head = on_head, .body = on_body};

void atoll_proxy_answer_start(struct atoll_proxy_exchange *x)
{
    atoll_http1_answer_start(&x->answer, atoll_http_method(x->req) == ATOLL_HEAD, x->upgrade,
                             &events, x);
}
