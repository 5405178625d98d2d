#pragma once
#include <jansson.h>
#include "base/error.h"
#include "loop/loop.h"
#include "sandbox/spec.h"

/*
 * The registry: what an operator declares in YAML files, one object a file, in the folders
 * environments, agents, tools and prompts of one directory. A file's name without ".yaml" is the
 * object's name. Files are checked when they are loaded, by field tables (registry_fields.c), and
 * again whenever one changes; a file that does not pass is a problem, and what it said before stays
 * in force.
 *
 * Blocking: small local files, read on the loop's thread. Thread: the loop's.
 * Ownership: objects are the registry's and good until control goes back to the loop.
 */
struct atoll_registry;

enum atoll_registry_kind {
    ATOLL_REGISTRY_ENVIRONMENT,
    ATOLL_REGISTRY_AGENT,
    ATOLL_REGISTRY_TOOL,
    ATOLL_REGISTRY_PROMPT,
    ATOLL_REGISTRY_KINDS,
};
/* "environments", …: also the name of the folder. */
const char *atoll_registry_kind_name(enum atoll_registry_kind kind);

/* Bounds; what is beyond them is a problem of the file concerned. */
#define ATOLL_REGISTRY_FILE_MAX ((size_t)64 * 1024)
#define ATOLL_REGISTRY_ITEMS_MAX 256 /* of a kind */
#define ATOLL_REGISTRY_PROBLEMS_MAX 64

/* dir "" or NULL: an empty registry. INVALID_ARGUMENT when it cannot be read; a file with a mistake
 * in it is no failure. */
int atoll_registry_open(struct atoll_loop *loop, const char *dir, struct atoll_registry **ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_registry *atoll_registry_close(struct atoll_registry *registry);
/* Looks at every file again. Called by itself soon after one changed. */
void atoll_registry_reload(struct atoll_registry *registry);
/* Grows with every reload that changed something. */
uint64_t atoll_registry_generation(const struct atoll_registry *registry);

struct atoll_registry_item {
    const char *name;
    const json_t *object; /* what the file says, checked */
};
/* False when there is none of that name. */
bool atoll_registry_find(const struct atoll_registry *registry, enum atoll_registry_kind kind,
                         const char *name, struct atoll_registry_item *ret);
/* By name in order: start with *pos = 0; false at the end. */
bool atoll_registry_next(const struct atoll_registry *registry, enum atoll_registry_kind kind,
                         size_t *pos, struct atoll_registry_item *ret);
size_t atoll_registry_count(const struct atoll_registry *registry, enum atoll_registry_kind kind);

struct atoll_registry_problem {
    const char *text; /* "environments/X.yaml:3:5: …" */
    bool kept;        /* an earlier version of the file is in force */
};
bool atoll_registry_next_problem(const struct atoll_registry *registry, size_t *pos,
                                 struct atoll_registry_problem *ret);

/* --- environments, as the engine uses them --- */

struct atoll_environment {
    const char *name;
    const char *template_name, *image;          /* one of them, the other NULL */
    const char *fallback;                       /* template where that is not there; or NULL */
    const json_t *aliases;                      /* of strings; NULL: none */
    const char *language;                       /* of code that says none */
    struct atoll_limits limits;                 /* 0: default */
    const json_t *env;                          /* of strings; NULL: none */
    const json_t *start;                        /* command to run at the beginning; NULL: none */
    const json_t *packages, *requires, *ignore; /* NULL: none */
    double execute_timeout_s;
    uint16_t port; /* where its server listens; 0: it has none */
};
/* By its name, else by an alias, which may be in any case; of two that have the alias the first by
 * name. NOT_FOUND names those that exist. */
int atoll_environment_find(const struct atoll_registry *registry, const char *name,
                           struct atoll_environment *ret, struct atoll_error *err) ATOLL_MUST_CHECK;

struct atoll_engine;
/* Its template if that is there, else its fallback if it has one. */
const char *atoll_environment_template(const struct atoll_environment *environment,
                                       struct atoll_engine *engine);

struct atoll_interpreter {
    const char *language;
    const char *extension; /* of the file with the code, without the dot */
    const json_t *run;     /* command, with "{file}" for the file with the code */
};
/* language NULL: the environment's own. INVALID_ARGUMENT names those it has. */
int atoll_environment_interpreter(const struct atoll_registry *registry,
                                  const struct atoll_environment *environment, const char *language,
                                  struct atoll_interpreter *ret,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
