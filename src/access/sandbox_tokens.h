#pragma once
#include "base/error.h"

/*
 * Tokens that open one sandbox for a limited time. They are no API keys: atoll_access_find() does not
 * know them, and the API accepts them for the few routes of api/sandbox_token.c only. All tokens are
 * held in memory by their hash. A change takes effect after the store has it. The owner of a sandbox
 * calls atoll_sandbox_tokens_forget() when the sandbox is gone.
 *
 * Blocking: as store/sandbox_tokens.h, for changes only. Thread: the loop's.
 */
struct atoll_sandbox_tokens;
struct atoll_store;

#define ATOLL_SANDBOX_TOKEN_PREFIX "ats_"
#define ATOLL_SANDBOX_TOKEN_LEN 44 /* "ats_" and 40 characters of a-z0-9: 206 random bits */
#define ATOLL_SANDBOX_TOKEN_ID_LEN 12
#define ATOLL_SANDBOX_TOKENS_EACH 16 /* per sandbox */

struct atoll_sandbox_token_view {
    const char *id, *sandbox_id;
    int64_t created_unix_ms, expires_unix_ms;
};

/* store is borrowed; NULL: tokens are not stored, for tests. */
int atoll_sandbox_tokens_new(struct atoll_store *store, struct atoll_sandbox_tokens **ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_sandbox_tokens *atoll_sandbox_tokens_free(struct atoll_sandbox_tokens *tokens);

/* Whether the text has the form of a token; does not look it up. */
bool atoll_sandbox_token_is_valid(const char *text);
/* Finds a token whose time is not over; false otherwise. Takes the same time for all texts of one
 * length. */
bool atoll_sandbox_tokens_find(const struct atoll_sandbox_tokens *tokens, const char *shown,
                               struct atoll_sandbox_token_view *ret);
/* Makes a token. ret_token holds ATOLL_SANDBOX_TOKEN_LEN + 1 bytes and is the only copy. Tokens of the
 * sandbox whose time is over are dropped. RESOURCE_EXHAUSTED, INVALID_ARGUMENT. */
int atoll_sandbox_tokens_create(struct atoll_sandbox_tokens *tokens, const char *sandbox_id,
                                int64_t expires_unix_ms, char *ret_token,
                                struct atoll_sandbox_token_view *ret,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends one token of the sandbox. NOT_FOUND. */
int atoll_sandbox_tokens_remove(struct atoll_sandbox_tokens *tokens, const char *sandbox_id,
                                const char *id, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends all tokens of the sandbox. */
int atoll_sandbox_tokens_clear(struct atoll_sandbox_tokens *tokens, const char *sandbox_id,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for a sandbox that is gone: ids are never reused, so a row that cannot be dropped is
 * harmless. */
void atoll_sandbox_tokens_forget(struct atoll_sandbox_tokens *tokens, const char *sandbox_id);
/* Iterates over the tokens of one sandbox, or of all sandboxes (NULL): start with *pos = 0; false at
 * the end. */
bool atoll_sandbox_tokens_next(const struct atoll_sandbox_tokens *tokens, const char *sandbox_id,
                               size_t *pos, struct atoll_sandbox_token_view *ret);
