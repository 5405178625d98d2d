#pragma once
#include <jansson.h>
#include "engine/engine.h"

/*
 * What a facade stores about a sandbox in addition to the engine's record: an object of JSON, in
 * facade_json. Its member "facade" names the facade that owns it; "foreign" is true, and not stored, in
 * those that a facade assumes of a sandbox that another one has made. The member "ended" stays in the
 * record of a sandbox that has ended.
 */
struct atoll_facts_kind {
    const char *facade;
    const char *foreign; /* JSON: what is assumed of sandboxes of other facades */
    const char *changed; /* the member with the time of the last change */
    const char *subject; /* of errors: "Sandbox" */
    size_t max;          /* bytes of JSON */
};

/* New references. */
json_t *atoll_facts_new(const struct atoll_facts_kind *kind);
json_t *atoll_facts_of(const struct atoll_facts_kind *kind, const struct atoll_sandbox *sandbox);
bool atoll_facts_are_foreign(const json_t *facts);
/* The facts as facade_json, malloced; now they are the facade's. INVALID_ARGUMENT: they are too large. */
int atoll_facts_dump(const struct atoll_facts_kind *kind, json_t *facts, char **ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* Stores them for a sandbox. */
int atoll_facts_store(const struct atoll_facts_kind *kind, struct atoll_engine *engine,
                      const char *id, json_t *facts, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sets one member and stores the facts; takes ownership of the value. NOT_FOUND. */
int atoll_facts_change(const struct atoll_facts_kind *kind, struct atoll_engine *engine,
                       const char *id, const char *name, json_t *value,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* Members. */
const char *atoll_fact_text(const json_t *facts, const char *name); /* or "" */
int64_t atoll_fact_number(const json_t *facts, const char *name, int64_t otherwise);
bool atoll_fact_flag(const json_t *facts, const char *name);
/* Sets a text, unless it is NULL or "". */
void atoll_fact_put_text(json_t *facts, const char *name, const char *text);
