#pragma once
#include <pthread.h>
#include "base/list.h"
#include "provider/remote/pump.h"

/* Shared by pump.c (the thread), stream.c (one stream) and background.c. */

/* Starts a transfer on the pump's thread, which calls t->done at its end. request.timeout_ms
 * limits it. */
int atoll_remote_transfer_begin(struct atoll_remote_pump *p, struct atoll_remote_transfer *t);
void atoll_remote_transfer_end(struct atoll_remote_pump *p, struct atoll_remote_transfer *t);

/* A caller that waits for its stream; on the caller's stack. Guarded by the pump's lock until it
 * is completed. */
struct atoll_remote_dialing {
    int event_fd; /* readable once it is completed */
    struct atoll_error error;
};

struct atoll_remote_stream {
    struct atoll_list node;
    struct atoll_remote_pump *pump;
    struct atoll_remote_dialing *dialing; /* NULL once completed; locked */
    const struct atoll_remote_stream_ops *ops;
    void *state; /* of ops; owned */
    char handle[ATOLL_REMOTE_HANDLE_MAX + 1];
    struct {
        const char *method;
        char *url; /* owned; NULL: the service has no such request */
    } to[ATOLL_REMOTE_REQUESTS];
    struct curl_slist *headers, *start_headers; /* owned */
    struct atoll_remote_transfer start, input;
    struct atoll_buf start_body, input_body;
    struct atoll_buf out; /* output for the engine */
    int fd;               /* our end of the socket pair */
    uint32_t watched;     /* events registered with epoll */
    int64_t silence_ms;
    int64_t heard_ms;    /* time of the last event from the service */
    int64_t input_at_ms; /* when to retry the input; 0: no retry due */
    unsigned input_tries;
    int exit_code;
    bool opened;   /* the process runs */
    bool stalled;  /* reading from the service is paused until the engine reads */
    bool eof;      /* the engine has closed its writing side */
    bool hung_up;  /* the engine has closed its end */
    bool told_eof; /* the end of input was sent */
    bool running;  /* see struct atoll_remote_open */
    bool spoke;    /* the process has written output */
    bool exited;   /* the process has ended */
    bool over;     /* nothing more comes from the service */
    bool dead;     /* to be freed */
};

struct atoll_remote_pump {
    struct atoll_remote_pump_config config;
    CURLM *multi;
    int epoll_fd;
    pthread_t thread;
    pthread_mutex_t lock;
    bool running, stopping;  /* locked */
    struct atoll_list fresh; /* new streams that the thread has not taken yet; locked */
    size_t count;            /* of all streams; locked */
    /* Used by the thread only. */
    struct atoll_list streams, tasks;
    size_t task_count;
};

/* On the caller's thread: prepares everything. On failure it frees what it made; on success it
 * owns fd. */
int atoll_remote_stream_new(struct atoll_remote_pump *p, const struct atoll_remote_open *open,
                            int fd, struct atoll_remote_stream **ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* On the pump's thread. */
void atoll_remote_stream_begin(struct atoll_remote_stream *s);
/* Handles events of its descriptor (epoll), its transfers (0) or the clock (0). */
void atoll_remote_stream_turn(struct atoll_remote_stream *s, uint32_t events, int64_t now_ms);
/* Milliseconds until it needs a turn. */
int64_t atoll_remote_stream_wait_ms(const struct atoll_remote_stream *s, int64_t now_ms);
struct atoll_remote_stream *atoll_remote_stream_free(struct atoll_remote_stream *s);

/* Requests without a waiting caller, on the pump's thread. */
void atoll_remote_background_kill(struct atoll_remote_pump *p, const struct atoll_remote_stream *s);
/* Extends the time to live of the sandboxes that are due. Returns the milliseconds until the
 * next one is. */
int64_t atoll_remote_background_leases(struct atoll_remote_pump *p, int64_t now_ms);
void atoll_remote_background_drop(struct atoll_remote_pump *p);
