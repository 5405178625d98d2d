#pragma once
#include "base/error.h"

/*
 * Stored answers of idempotent requests. The facade makes the name of an answer from the tenant,
 * the request and its idempotency key. An answer is kept for one day, up to a total number and
 * size; beyond those, the oldest answers of the owners that hold the most are dropped first.
 * Answers survive a restart of the daemon: atoll_answers_keep() stores the answer before it is sent
 * to the client. An answer too large for the store is kept in memory only; the store then records
 * that the request was answered.
 *
 * Thread: the loop's. Ownership: returned answers belong to this module and are valid until control
 * returns to the loop; an answer from atoll_answers_begin() until it is kept or forgotten.
 */
struct atoll_answers;
struct atoll_store;

#define ATOLL_ANSWER_NAME_LEN 64
#define ATOLL_ANSWER_OWNER_LEN 16 /* length of the prefix of a name that identifies the owner */
#define ATOLL_ANSWER_REQUEST_BYTES 32

struct atoll_kept_answer {
    int status;                                  /* 0 while the first request is in progress */
    const char *text;                            /* NULL: too large to keep */
    uint8_t request[ATOLL_ANSWER_REQUEST_BYTES]; /* hash of the request */
};

/* store is borrowed; NULL: answers are lost on restart. */
int atoll_answers_new(struct atoll_store *store, struct atoll_answers **ret,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_answers *atoll_answers_free(struct atoll_answers *answers);

/* NULL when no answer has that name. */
const struct atoll_kept_answer *atoll_answers_find(struct atoll_answers *answers, const char *name);
/* Records that the first request of that name (ATOLL_ANSWER_NAME_LEN characters) is in progress.
 * NULL when too many of this owner are in progress. */
struct atoll_kept_answer *atoll_answers_begin(struct atoll_answers *answers, const char *name,
                                              const uint8_t *request);
void atoll_answers_keep(struct atoll_answers *answers, struct atoll_kept_answer *answer, int status,
                        const char *text, size_t n);
void atoll_answers_forget(struct atoll_answers *answers, struct atoll_kept_answer *answer);
