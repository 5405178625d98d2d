#pragma once
#include <pthread.h>
#include "base/list.h"
#include "provider/e2b/http.h"
#include "provider/e2b/pump.h"

/* Shared by pump.c (the thread), stream.c (one stream) and background.c. */

/* A transfer of the pump's thread. */
struct atoll_e2b_transfer {
    CURL *easy; /* owned */
    struct atoll_e2b_ask ask;
    bool busy;
    void (*done)(struct atoll_e2b_transfer *t, CURLcode code, long status);
};
int atoll_e2b_transfer_begin(struct atoll_e2b_pump *p, struct atoll_e2b_transfer *t);
void atoll_e2b_transfer_end(struct atoll_e2b_pump *p, struct atoll_e2b_transfer *t);

/* A caller that waits for its stream; on the caller's stack. Guarded by the pump's lock until it
 * is completed. */
struct atoll_e2b_dialing {
    int event_fd; /* readable once it is completed */
    struct atoll_error error;
};

struct atoll_e2b_stream {
    struct atoll_list node;
    struct atoll_e2b_pump *pump;
    struct atoll_e2b_dialing *dialing; /* NULL once completed; locked */
    char handle[ATOLL_E2B_HANDLE_MAX + 1];
    char *start_url, *input_url, *close_url, *kill_url; /* owned */
    struct curl_slist *headers, *start_headers;         /* owned */
    struct atoll_e2b_transfer start, input;
    struct atoll_buf start_body, input_body;
    struct atoll_e2b_answer input_answer;
    struct atoll_e2b_events events;
    struct atoll_buf out;     /* output for the engine */
    struct atoll_buf refusal; /* body of an error answer */
    int fd;                   /* our end of the socket pair */
    uint32_t watched;         /* events registered with epoll */
    uint32_t pid;
    int64_t heard_ms;    /* time of the last event from the service */
    int64_t input_at_ms; /* when to retry the input; 0: no retry due */
    unsigned input_tries;
    int exit_code;
    bool stalled;  /* reading from the service is paused until the engine reads */
    bool eof;      /* the engine has closed its writing side */
    bool hung_up;  /* the engine has closed its end */
    bool told_eof; /* CloseStdin was sent */
    bool spoke;    /* the process has written output */
    bool exited;   /* the process has ended */
    bool over;     /* nothing more comes from the service */
    bool dead;     /* to be freed */
};

struct atoll_e2b_pump {
    struct atoll_e2b_pump_config config;
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
int atoll_e2b_stream_new(struct atoll_e2b_pump *p, const struct atoll_e2b_open *open, int fd,
                         struct atoll_e2b_stream **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* On the pump's thread. */
void atoll_e2b_stream_begin(struct atoll_e2b_stream *s);
/* Handles events of its descriptor (epoll), its transfers (0) or the clock (0). */
void atoll_e2b_stream_turn(struct atoll_e2b_stream *s, uint32_t events, int64_t now_ms);
/* Milliseconds until it needs a turn. */
int64_t atoll_e2b_stream_wait_ms(const struct atoll_e2b_stream *s, int64_t now_ms);
struct atoll_e2b_stream *atoll_e2b_stream_free(struct atoll_e2b_stream *s);

/* Requests without a waiting caller, on the pump's thread. */
void atoll_e2b_background_kill(struct atoll_e2b_pump *p, const struct atoll_e2b_stream *s);
/* Extends the time to live of the sandboxes that are due. Returns the milliseconds until the
 * next one is. */
int64_t atoll_e2b_background_leases(struct atoll_e2b_pump *p, int64_t now_ms);
void atoll_e2b_background_drop(struct atoll_e2b_pump *p);
