#pragma once
#include "base/buf.h"
#include "egress/cache_table.h"
#include "loop/loop.h"

/*
 * Downloads that never change, kept for all sandboxes (docs/network.md "Downloads that are kept"). One file
 * for each URL in a directory of its own: its name is the SHA-256 of the URL, it has a head of 4 KiB (JSON)
 * and then the content. Half-made files have the suffix ".part" and are removed at the next start. The sum
 * of their sizes is bounded; the least recently used are removed first.
 *
 * Blocking: opening reads the directory; everything else on files is done by threads of its own.
 * Thread: the loop's. Callbacks are never called from inside the call that asks for them.
 */
struct atoll_egress_cache;

/* What a response has besides its content. */
struct atoll_cache_head {
    const char *url;
    const struct atoll_buf *fields; /* "name\0value\0" pairs */
    uint64_t size;                  /* of the content */
};

/* Counters since the last atoll_cache_take_counts(), and what there is now. */
struct atoll_cache_counts {
    uint64_t hits, misses;
    uint64_t hit_bytes,
        miss_bytes; /* content from here, and from servers for requests that missed */
    uint64_t evictions;
    uint64_t mismatches; /* content that had another digest than its URL or head says */
    uint64_t failures;   /* files that could not be read or written */
    uint64_t bytes, files;
};

/* directory_fd: taken, also on failure. It keeps nothing before atoll_cache_set(). */
int atoll_cache_open(struct atoll_loop *loop, int directory_fd, struct atoll_egress_cache **ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits for the threads. Cancel reads and writes first. Accepts NULL; returns NULL. */
struct atoll_egress_cache *atoll_cache_close(struct atoll_egress_cache *cache);
/* Keeps at most max_bytes by this table, which is taken. table NULL: keeps and finds nothing; the files
 * stay. */
void atoll_cache_set(struct atoll_egress_cache *cache, struct atoll_cache_table *table,
                     uint64_t max_bytes);
/* The table, or NULL. cache may be NULL. */
const struct atoll_cache_table *atoll_cache_table_of(const struct atoll_egress_cache *cache);
/* Called when a counter changes, at most once until the counts are taken. */
void atoll_cache_on_count(struct atoll_egress_cache *cache, void (*fn)(void *arg), void *arg);
void atoll_cache_take_counts(struct atoll_egress_cache *cache, struct atoll_cache_counts *ret);

/* Reading. Exactly one of absent, end and failed is called last; the read is then freed. */
struct atoll_cache_read;
struct atoll_cache_reader {
    void (*absent)(void *arg); /* first: it is not here, or damaged; ask the server */
    void (*head)(void *arg, const struct atoll_cache_head *head);
    /* True: the next one may follow; false: it is asked for with atoll_cache_read_more(). */
    bool (*piece)(void *arg, const uint8_t *bytes, size_t n);
    void (*end)(void *arg);    /* all pieces were given, and the content has its digest */
    void (*failed)(void *arg); /* after head: it cannot be given completely */
};
/* NULL: it is not here. tenant: whose share of the threads it uses; copied. */
struct atoll_cache_read *atoll_cache_find(struct atoll_egress_cache *cache, const char *url,
                                          const char *tenant,
                                          const struct atoll_cache_reader *reader, void *arg);
void atoll_cache_read_more(struct atoll_cache_read *read);
/* No callback is called after this. */
void atoll_cache_read_cancel(struct atoll_cache_read *read);

/* Writing. */
struct atoll_cache_write;
/* NULL: it is not kept: too large, too many at once. drained: called when atoll_cache_write_pending() fell
 * below ATOLL_CACHE_PENDING after it had exceeded it. */
#define ATOLL_CACHE_PENDING ((size_t)1024 * 1024)
struct atoll_cache_write *atoll_cache_begin(struct atoll_egress_cache *cache, const char *tenant,
                                            const struct atoll_cache_head *head,
                                            const struct atoll_cache_expected *expected,
                                            void (*drained)(void *arg), void *arg);
void atoll_cache_write(struct atoll_cache_write *write, const uint8_t *bytes, size_t n);
size_t atoll_cache_write_pending(const struct atoll_cache_write *write);
/* Ends it; the pointer is invalid then. complete: the response was; it is kept if it has the size of its
 * head and the digest that was expected. */
void atoll_cache_end(struct atoll_cache_write *write, bool complete);

/* Counts a request that a server answers, and its content. */
void atoll_cache_count_miss(struct atoll_egress_cache *cache);
void atoll_cache_count_bytes(struct atoll_egress_cache *cache, uint64_t bytes);
