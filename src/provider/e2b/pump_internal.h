#pragma once
#include <pthread.h>
#include "base/list.h"
#include "provider/e2b/http.h"
#include "provider/e2b/pump.h"

/* What pump.c (the thread), stream.c (one stream) and task.c share. */

/* A transfer of the thread's. */
struct atoll_e2b_transfer {
    CURL *easy; /* owned */
    struct atoll_e2b_ask ask;
    bool busy;
    void (*done)(struct atoll_e2b_transfer *t, CURLcode code, long status);
};
int atoll_e2b_transfer_begin(struct atoll_e2b_pump *p, struct atoll_e2b_transfer *t);
void atoll_e2b_transfer_end(struct atoll_e2b_pump *p, struct atoll_e2b_transfer *t);

/* Somebody who waits for a stream; on that one's stack, and until settled under the pump's lock. */
struct atoll_e2b_dialing {
    int event_fd; /* readable once it is settled */
    struct atoll_error error;
};

struct atoll_e2b_stream {
    struct atoll_list node;
    struct atoll_e2b_pump *pump;
    struct atoll_e2b_dialing *dialing; /* NULL once settled; locked */
    char handle[ATOLL_E2B_HANDLE_MAX + 1];
    char *start_url, *input_url, *close_url, *kill_url; /* owned */
    struct curl_slist *headers, *start_headers;         /* owned */
    struct atoll_e2b_transfer start, input;
    struct atoll_buf start_body, input_body;
    struct atoll_e2b_answer input_answer;
    struct atoll_e2b_events events;
    struct atoll_buf out;     /* for the engine */
    struct atoll_buf refusal; /* instead of a stream */
    int fd;                   /* our end */
    uint32_t watched;         /* what epoll knows of it */
    uint32_t pid;
    int64_t heard_ms;    /* the last sign of life */
    int64_t input_at_ms; /* when to try again; 0: nothing to try again */
    unsigned input_tries;
    int exit_code;
    bool stalled;  /* the service waits for the engine to read */
    bool eof;      /* the engine writes no more */
    bool hung_up;  /* nor reads */
    bool told_eof; /* and the process knows */
    bool spoke;    /* the process has said something */
    bool exited;   /* and ended */
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
    struct atoll_list fresh; /* streams the thread does not know yet; locked */
    size_t count;            /* of all streams; locked */
    /* The thread's own. */
    struct atoll_list streams, tasks;
    size_t task_count;
};

/* On the opener's thread: everything that can be prepared. Frees what it made when it fails; the fd is
 * taken over on success. */
int atoll_e2b_stream_new(struct atoll_e2b_pump *p, const struct atoll_e2b_open *open, int fd,
                         struct atoll_e2b_stream **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* On the thread. */
void atoll_e2b_stream_begin(struct atoll_e2b_stream *s);
/* Something happened to its descriptor (events of epoll), its transfers (0) or the clock (0). */
void atoll_e2b_stream_turn(struct atoll_e2b_stream *s, uint32_t events, int64_t now_ms);
/* Milliseconds until it wants a turn. */
int64_t atoll_e2b_stream_wait_ms(const struct atoll_e2b_stream *s, int64_t now_ms);
struct atoll_e2b_stream *atoll_e2b_stream_free(struct atoll_e2b_stream *s);

/* Requests nobody waits for, on the thread. */
void atoll_e2b_errand_kill(struct atoll_e2b_pump *p, const struct atoll_e2b_stream *s);
/* Moves on the time of those sandboxes that are due; milliseconds until the next one is. */
int64_t atoll_e2b_errand_leases(struct atoll_e2b_pump *p, int64_t now_ms);
void atoll_e2b_errands_drop(struct atoll_e2b_pump *p);
