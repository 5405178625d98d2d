#pragma once
#include "engine/engine.h"
#include "net/http_server.h"
#include "net/websocket.h"

/*
 * Carries the output of a command to a client. The facade says how data, gaps, the end and
 * keep-alives look; the pump does what is the same for all of them:
 *   - the client sets the pace: nothing is read from the journal while more than
 *     ATOLL_HTTP_HIGH_WATER bytes are waiting to be sent;
 *   - after some output other connections are served first;
 *   - output that the client's socket has taken is released, so that the daemon need not keep it;
 *   - a client of a silent command gets keep-alives.
 *
 * Ownership: the caller's storage, zeroed before use. Callbacks that are the pump's last action may
 * close the pump and free it.
 */
#define ATOLL_EXEC_PUMP_SLICE_MAX ((size_t)64 * 1024)

struct atoll_exec_pump_ops {
    size_t slice; /* most bytes in one call of data(); at most ATOLL_EXEC_PUMP_SLICE_MAX */
    /* An incomplete UTF-8 character at the end of a piece is passed with the next piece of its
     * stream (at most 3 bytes more than `slice`), so that text stays valid. */
    bool whole_characters;
    /* data, gap and keep_alive return 0 to go on; -EPIPE: the client has disconnected, and the
     * callback of the connection follows; other errors go to failed(); 1: the callback has closed
     * the pump. */
    int (*data)(void *arg, int stream, uint64_t offset, const uint8_t *bytes, size_t n);
    int (*gap)(void *arg, const struct atoll_reader_item *gap);
    int (*keep_alive)(void *arg);
    /* The command has ended and all of its output was passed. result NULL: the pump does not
     * follow, and passed the output that there is so far. The last action. */
    void (*end)(void *arg, const struct atoll_exec_result *result);
    /* Nothing more can be read or sent: an errno, negative. The last action. */
    void (*failed)(void *arg, int error);
};

struct atoll_exec_pump_config {
    const struct atoll_exec_pump_ops *ops;
    void *arg;
    struct atoll_loop *loop;
    /* Where the output is sent: a response, a WebSocket, or neither if the caller keeps it. */
    struct atoll_http_request *req;
    struct atoll_ws *ws;
    uint64_t from[2];      /* offsets in stdout and stderr, or ATOLL_READ_FROM_END */
    bool follow;           /* until the command has ended */
    int64_t keep_alive_ms; /* 0: no keep-alives */
};

struct atoll_exec_pump {
    struct atoll_exec_pump_config config;
    struct atoll_reader *reader; /* owned; NULL while the pump is closed */
    struct atoll_timer turn;     /* continues after other connections were served */
    struct atoll_timer silence;  /* the next keep-alive */
    int64_t sent_ms;
    struct {
        uint8_t bytes[3]; /* of an incomplete character */
        size_t len;
        uint64_t offset; /* of the first of them */
    } held[ATOLL_STREAM_STDERR + 1];
};

/* Opens the output of the command; nothing is passed before atoll_exec_pump_run(). Errors of
 * atoll_reader_open(). */
int atoll_exec_pump_open(struct atoll_exec_pump *p, struct atoll_exec *exec,
                         const struct atoll_exec_pump_config *config,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Passes the output that there is, and continues by itself when there is more. Call it again when
 * the WebSocket has drained; for a response the pump does that. Does nothing on a closed pump. */
void atoll_exec_pump_run(struct atoll_exec_pump *p);
/* Releases the reader and the timers. Safe on a zeroed or closed pump. */
void atoll_exec_pump_close(struct atoll_exec_pump *p);
