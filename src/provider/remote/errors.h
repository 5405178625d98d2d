#pragma once
#include "base/error.h"

/*
 * What the answers of a service mean: HTTP status and the service's own code, by tables, to our
 * errors. Pure.
 */
struct atoll_remote_rule {
    long status;      /* 0: any */
    const char *code; /* the service's own code; NULL: any */
    enum atoll_error_kind kind;
    int errnum;
    const char *hint; /* what the operator can do, appended to the text; may be NULL */
};

/* The texts and tables of one service. */
struct atoll_remote_service {
    const char *name;                      /* "the E2B service" */
    const char *label;                     /* of its metrics: "e2b" */
    const struct atoll_remote_rule *rules; /* first match wins; after them the common ones */
    size_t rule_count;
    const char *key_header;     /* with the key: "X-API-Key: " */
    const char *credential;     /* field of a request with the client's own key: "e2b.apiKey" */
    const char *message, *code; /* fields of the JSON of its errors; NULL: "message", "code" */
    bool scoped;                /* a client's own key is "KEY SCOPE": see account.h */
};

/* The rule for an answer; status is not 2xx. code may be NULL. */
struct atoll_remote_rule atoll_remote_rule_of(const struct atoll_remote_service *service,
                                              long status, const char *code);

/* The error that an answer means whose status is not 2xx. `what` names the operation. secret (may
 * be NULL) is removed if the service repeats it. retry_after_s: 0 if not given; sets
 * err->retry_ms for errors that a retry may mend. */
int atoll_remote_refused(struct atoll_error *err, const struct atoll_remote_service *service,
                         const char *what, long status, const char *body, size_t n,
                         uint32_t retry_after_s, const char *secret);

/* A text of the JSON object `body`, printable and without the secret; "" without one, NULL
 * when out of memory. field: its name, or "OBJECT.NAME". The caller frees it. */
char *atoll_remote_text(const char *body, size_t n, const char *field, const char *secret);
