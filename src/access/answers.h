#pragma once
#include "base/error.h"

/*
 * Answers to requests that may be sent again, by a name that the facade makes of who asked for what
 * with which key. They are kept for a day, up to a number and a size, beyond which the oldest of those
 * give way who have the most; and in the store, so that they survive the daemon: an answer is stored
 * when atoll_answers_keep() returns, and sent after that.
 * One that is too large for the store is kept in memory; that there was one is stored all the same.
 *
 * Thread: the loop's. Ownership: answers are ours, good until control goes back to the loop; one that
 * was begun, until it is kept or forgotten.
 */
struct atoll_answers;
struct atoll_store;

#define ATOLL_ANSWER_NAME_LEN 64
#define ATOLL_ANSWER_OWNER_LEN 16 /* so much of a name says whose it is */
#define ATOLL_ANSWER_REQUEST_BYTES 32

struct atoll_kept_answer {
    int status;                                  /* 0 while the first request is under way */
    const char *text;                            /* NULL: too large to keep */
    uint8_t request[ATOLL_ANSWER_REQUEST_BYTES]; /* what was asked, hashed */
};

/* store: borrowed; NULL: nothing survives. */
int atoll_answers_new(struct atoll_store *store, struct atoll_answers **ret,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_answers *atoll_answers_free(struct atoll_answers *answers);

/* NULL when there is none of that name. */
const struct atoll_kept_answer *atoll_answers_find(struct atoll_answers *answers, const char *name);
/* The first request of that name (ATOLL_ANSWER_NAME_LEN characters) is under way. NULL: too many
 * are. */
struct atoll_kept_answer *atoll_answers_begin(struct atoll_answers *answers, const char *name,
                                              const uint8_t *request);
void atoll_answers_keep(struct atoll_answers *answers, struct atoll_kept_answer *answer, int status,
                        const char *text, size_t n);
void atoll_answers_forget(struct atoll_answers *answers, struct atoll_kept_answer *answer);
