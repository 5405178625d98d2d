#pragma once
#include <openssl/evp.h>
#include "base/list.h"
#include "base/map.h"
#include "egress/blake2b.h"
#include "egress/cache.h"
#include "loop/workers.h"

/*
 * What the files of the cache share.
 *   cache.c        which files there are, their order of use, which are removed
 *   cache_file.c   the head of a file
 *   cache_read.c   a file is read, piece by piece
 *   cache_write.c  a file is written
 */
#define CACHE_NAME_LEN 64 /* SHA-256 of the URL, hexadecimal */
#define CACHE_HEAD_BYTES ((size_t)4096)
#define CACHE_PART ".part"

struct atoll_cache_file {
    struct atoll_list node; /* in the cache's list: the least recently used is first */
    char name[CACHE_NAME_LEN + 1];
    uint64_t bytes; /* with its head */
};

struct atoll_egress_cache {
    struct atoll_loop *loop;
    int fd; /* the directory */
    struct atoll_workers *workers;
    struct atoll_cache_table *table; /* owned; NULL: off */
    uint64_t max_bytes;
    uint64_t bytes;         /* of files, and of those that are being written */
    struct atoll_map files; /* by name, owned */
    struct atoll_list by_use;
    size_t writes; /* that have not ended */
    uint64_t serial;
    struct atoll_cache_counts counts;
    bool counted; /* on_count was called */
    bool ending;  /* no callback is called any more */
    void (*on_count)(void *arg);
    void *arg;
};

/* cache.c */
void atoll_cache_changed(struct atoll_egress_cache *cache);
void atoll_cache_name(const char *url, char out[CACHE_NAME_LEN + 1]);
struct atoll_cache_file *atoll_cache_get(const struct atoll_egress_cache *cache, const char *name);
/* Adds a file that was written, or replaces it. */
void atoll_cache_add(struct atoll_egress_cache *cache, const char *name, uint64_t bytes);
/* Removes the file, from the disk, too. Jobs that change one name are in one lane. */
void atoll_cache_drop(struct atoll_egress_cache *cache, struct atoll_cache_file *file);
/* Makes room for so many bytes more. False: there cannot be. */
bool atoll_cache_make_room(struct atoll_egress_cache *cache, uint64_t bytes);

/* cache_file.c: runs on threads, too. */
struct atoll_cache_stored {
    json_t *json; /* owned; url and fields are borrowed from it */
    const char *url;
    uint64_t size;
    uint8_t sha256[ATOLL_CACHE_DIGEST_BYTES];
};
/* False: it does not fit. */
bool atoll_cache_head_print(const char *url, const struct atoll_buf *fields, uint64_t size,
                            const uint8_t sha256[ATOLL_CACHE_DIGEST_BYTES],
                            char out[CACHE_HEAD_BYTES]);
bool atoll_cache_head_parse(const char bytes[CACHE_HEAD_BYTES], struct atoll_cache_stored *ret);
