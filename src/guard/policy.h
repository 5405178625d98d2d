#pragma once
#include <jansson.h>
#include "base/error.h"

/*
 * Rules about calls of tools: which are refused, which ask a human first. They are manners, not walls: a shell can
 * do the same thing in more ways than patterns can tell. The sandbox is the wall. docs/interception.md has the
 * format. Pure.
 */
struct atoll_guard_policy;

#define ATOLL_GUARD_POLICY_MAX ((size_t)64 * 1024) /* of its JSON */
#define ATOLL_GUARD_RULES_MAX 64
#define ATOLL_GUARD_HOOKS_MAX 8
#define ATOLL_GUARD_COMMAND_MAX ((size_t)64 * 1024) /* a longer command is unclear */
#define ATOLL_GUARD_ASK_S 120
#define ATOLL_GUARD_ASK_S_MAX 3600

/* A later one prevails. */
enum atoll_guard_verdict { ATOLL_GUARD_ALLOW, ATOLL_GUARD_ASK, ATOLL_GUARD_DENY };
const char *atoll_guard_verdict_name(enum atoll_guard_verdict verdict);
/* -EINVAL. */
int atoll_guard_verdict_by_name(const char *name, enum atoll_guard_verdict *ret) ATOLL_MUST_CHECK;

/* A webhook. */
struct atoll_guard_hook {
    const char *name, *url, *secret; /* secret: NULL: requests are not signed */
    const json_t *tools;             /* names; NULL: all */
    bool before, after;
    uint32_t timeout_ms;
    bool fails_open; /* if it does not answer, the call goes on */
};

/* Of a new policy that can be parsed: INVALID_ARGUMENT, if the command of a rule never matches. */
int atoll_guard_policy_check(const json_t *json, struct atoll_error *err) ATOLL_MUST_CHECK;
/* INVALID_ARGUMENT says which member is wrong. json is borrowed. */
int atoll_guard_policy_parse(const json_t *json, struct atoll_guard_policy **ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* The policy has one more owner. */
struct atoll_guard_policy *atoll_guard_policy_ref(struct atoll_guard_policy *policy);
struct atoll_guard_policy *atoll_guard_policy_free(struct atoll_guard_policy *policy);
/* As it was given; with secrets. Borrowed. */
const json_t *atoll_guard_policy_json(const struct atoll_guard_policy *policy);
/* For clients: "hasSecret" instead of secrets; owned by the caller. */
json_t *atoll_guard_policy_show(const struct atoll_guard_policy *policy);
uint32_t atoll_guard_policy_ask_s(const struct atoll_guard_policy *policy);
/* NULL: there are no more. */
const struct atoll_guard_hook *atoll_guard_policy_hook(const struct atoll_guard_policy *policy,
                                                       size_t i);

/* A call, as rules see it. */
struct atoll_guard_subject {
    const char *tool, *mcp_name; /* its two names; one may be NULL */
    const char *command;         /* a text for a shell; NULL: it has none */
    const char *path;            /* absolute, of the sandbox; NULL: it has none */
    const char *target;          /* likewise: the new path of what is moved */
    const json_t *files; /* more paths: names in the directory `path`, or absolute; NULL: none */
    bool with_content;   /* what is below path and target is moved or removed, too */
    const char *home;    /* absolute: what "~" is in rules */
    /* For rules that ask or deny: names of tools that do the same, ends with NULL; NULL: none. */
    const char *const *like;
    /* The tool runs no shell, and the command is what it would be in one. Rules that ask or deny are about it, those
     * that name Bash as well. */
    bool command_is_made;
};
bool atoll_guard_hook_wants(const struct atoll_guard_hook *hook,
                            const struct atoll_guard_subject *subject);

struct atoll_guard_decision {
    enum atoll_guard_verdict verdict;
    char by[64];      /* "rule 3", "default" … */
    char reason[300]; /* for the model and the human; never empty if it is not allowed */
};
void atoll_guard_decide(const struct atoll_guard_policy *policy,
                        const struct atoll_guard_subject *subject,
                        struct atoll_guard_decision *ret);
