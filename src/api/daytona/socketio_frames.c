#include "api/daytona/socketio_frames.h"

#include <string.h>
#include "api/fields.h"

#define CONNECT "40"
#define DISCONNECT "41"

static void take_token(const uint8_t *bytes, size_t n, struct atoll_sio_frame *ret)
{
    bool no_memory;
    json_error_t why;
    json_t *root = n > 0 ? atoll_fields_load(bytes, n, &why, &no_memory) : json_object();
    const json_t *token = json_object_get(root, "token");

    if (!json_is_object(root))
        ret->kind = ATOLL_SIO_BAD;
    else if (json_is_string(token) && json_string_length(token) <= ATOLL_SIO_TOKEN_MAX)
        memcpy(ret->token, json_string_value(token), json_string_length(token) + 1);
    json_decref(root);
}

/* What follows "40": a namespace that begins with "/" and ends with ",", and an object; both may be
 * absent. */
static void take_connect(const uint8_t *bytes, size_t n, struct atoll_sio_frame *ret)
{
    size_t len = 0;

    ret->kind = ATOLL_SIO_CONNECT;
    if (n > 0 && bytes[0] == '/') {
        const uint8_t *comma = memchr(bytes, ',', n);
        len = comma ? (size_t)(comma - bytes) : n;
        ret->other_namespace = len > 1;
        len += comma ? 1 : 0;
    }
    take_token(bytes + len, n - len, ret);
}

void atoll_sio_parse(const uint8_t *bytes, size_t n, struct atoll_sio_frame *ret)
{
    *ret = (struct atoll_sio_frame){.kind = ATOLL_SIO_BAD};
    if (n == 0)
        return;
    switch (bytes[0]) {
    case '1':
        ret->kind = n == 1 ? ATOLL_SIO_CLOSE : ATOLL_SIO_BAD;
        return;
    case '2':
        if (n - 1 > ATOLL_SIO_DATA_MAX || memchr(bytes, '\0', n))
            return;
        ret->kind = ATOLL_SIO_PING;
        memcpy(ret->data, bytes + 1, n - 1);
        return;
    case '3':
        ret->kind = ATOLL_SIO_PONG;
        return;
    case '4':
        if (n >= 2 && memcmp(bytes, CONNECT, 2) == 0)
            take_connect(bytes + 2, n - 2, ret);
        else if (n >= 2 && memcmp(bytes, DISCONNECT, 2) == 0)
            ret->kind = ATOLL_SIO_DISCONNECT;
        else if (n >= 2 && bytes[1] >= '2' && bytes[1] <= '6')
            ret->kind = ATOLL_SIO_OTHER;
        return;
    default:
        return;
    }
}
