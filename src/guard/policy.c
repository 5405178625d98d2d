#include "guard/policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/glob.h"
#include "base/memory.h"
#include "guard/match.h"

_Static_assert(ATOLL_GUARD_COMMAND_MAX == ATOLL_SHELL_TEXT_MAX,
               "what is made must be unclear, too");

#define REASON_MAX 200
#define WORK_MAX ((size_t)2 * 1000 * 1000) /* steps of one decision: a few milliseconds */
#define PATHS_WORK_MAX \
    ((size_t)50 * 1000 * 1000) /* of files of one decision: bytes of path times pattern */
#define PATH_MAX_BYTES 4096

struct rule {
    enum atoll_guard_verdict verdict;
    const json_t *tools; /* of the policy's JSON; NULL: all */
    bool has_command;
    struct atoll_pattern command;
    const char *path, *reason; /* likewise; NULL: none */
};

struct atoll_guard_policy {
    unsigned refs;
    json_t *json; /* owned */
    struct rule rules[ATOLL_GUARD_RULES_MAX];
    size_t rule_count;
    struct atoll_guard_hook hooks[ATOLL_GUARD_HOOKS_MAX];
    size_t hook_count;
    enum atoll_guard_verdict otherwise, unclear;
    uint32_t ask_s;
};

static const char *const verdicts[] = {"allow", "ask", "deny"};

const char *atoll_guard_verdict_name(enum atoll_guard_verdict verdict)
{
    return verdicts[verdict];
}

int atoll_guard_verdict_by_name(const char *name, enum atoll_guard_verdict *ret)
{
    for (size_t i = 0; name && i < ATOLL_ARRAY_LEN(verdicts); i++)
        if (strcmp(name, verdicts[i]) == 0) {
            *ret = (enum atoll_guard_verdict)i;
            return 0;
        }
    return -EINVAL;
}

/* Parsing. */

static int refuse(struct atoll_error *err, const char *where, const char *name, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "toolPolicy: %s%s%s must be %s",
                      where, *where ? "." : "", name, what);
}

static int check_members(const json_t *object, const char *const *known, const char *where,
                         struct atoll_error *err)
{
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return refuse(err, where, "it", "an object");
    json_object_foreach((json_t *)object, name, value)
    {
        const char *const *k = known;

        while (*k && strcmp(*k, name) != 0)
            k++;
        if (!*k)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "toolPolicy: %s%s%.64s is not a known member", where,
                              *where ? "." : "", name);
    }
    return 0;
}

/* A text, or NULL if it is absent. */
static int read_text(const json_t *object, const char *where, const char *name, size_t max,
                     const char **ret, struct atoll_error *err)
{
    const json_t *value = json_object_get(object, name);

    *ret = json_string_value(value);
    if (value &&
        (!*ret || !**ret || strlen(*ret) > max || strlen(*ret) != json_string_length(value)))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "toolPolicy: %s%s%s must be a text of 1 to %zu bytes", where,
                          *where ? "." : "", name, max);
    return 0;
}

static int read_verdict(const json_t *object, const char *where, const char *name,
                        enum atoll_guard_verdict *ret, struct atoll_error *err)
{
    const json_t *value = json_object_get(object, name);

    if (value && atoll_guard_verdict_by_name(json_string_value(value), ret) < 0)
        return refuse(err, where, name, "allow, ask or deny");
    return 0;
}

static int read_seconds(const json_t *object, const char *where, const char *name, uint32_t max,
                        uint32_t *ret, struct atoll_error *err)
{
    const json_t *value = json_object_get(object, name);
    json_int_t number = json_integer_value(value);

    if (value && (!json_is_integer(value) || number < 1 || number > max))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "toolPolicy: %s%s%s must be a whole number from 1 to %u", where,
                          *where ? "." : "", name, max);
    if (value)
        *ret = (uint32_t)number;
    return 0;
}

/* A name or an array of names, with "*"; NULL: absent. A single name becomes an array in the policy's JSON. */
static int read_tools(json_t *object, const char *where, const json_t **ret,
                      struct atoll_error *err)
{
    json_t *value = json_object_get(object, "tools");

    *ret = NULL;
    if (!value)
        return 0;
    if (json_is_string(value)) {
        if (json_object_set_new(object, "tools", json_pack("[O]", value)) < 0)
            return atoll_fail_errno(err, ENOMEM, "policy");
        value = json_object_get(object, "tools");
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_string(json_array_get(value, i)) ||
            !*json_string_value(json_array_get(value, i)))
            return refuse(err, where, "tools", "a name of a tool, or an array of names");
    if (json_array_size(value) < 1 || json_array_size(value) > 64)
        return refuse(err, where, "tools", "a name of a tool, or an array of 1 to 64 names");
    *ret = value;
    return 0;
}

static int read_path_pattern(const json_t *json, const char *where, const char **ret,
                             struct atoll_error *err)
{
    int r = read_text(json, where, "path", ATOLL_PATTERN_MAX, ret, err);

    if (r == 0 && *ret && **ret != '/' && strncmp(*ret, "~/", 2) != 0 &&
        strncmp(*ret, "**/", 3) != 0)
        r = refuse(err, where, "path", "a pattern that begins with /, ~/ or **/");
    return r;
}

static int read_rule(struct atoll_guard_policy *policy, json_t *json, const char *where,
                     struct atoll_error *err)
{
    static const char *const known[] = {"decision", "tools", "command", "path", "reason", NULL};
    struct rule *rule = &policy->rules[policy->rule_count];
    const char *command = NULL;
    int r = check_members(json, known, where, err);

    if (r == 0 && !json_object_get(json, "decision"))
        r = refuse(err, where, "decision", "allow, ask or deny");
    if (r == 0)
        r = read_verdict(json, where, "decision", &rule->verdict, err);
    if (r == 0)
        r = read_tools(json, where, &rule->tools, err);
    if (r == 0)
        r = read_text(json, where, "command", ATOLL_PATTERN_MAX, &command, err);
    if (r == 0)
        r = read_path_pattern(json, where, &rule->path, err);
    if (r == 0)
        r = read_text(json, where, "reason", REASON_MAX, &rule->reason, err);
    if (r == 0 && command && rule->path)
        r = refuse(err, where, "command", "absent if there is a path");
    if (r == 0 && command)
        r = atoll_pattern_parse(command, &rule->command, err);
    rule->has_command = r == 0 && command;
    policy->rule_count += r == 0;
    return r;
}

static bool has_text(const json_t *array, const char *text)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *one = json_string_value(json_array_get(array, i));

        if (one && strcmp(one, text) == 0)
            return true;
    }
    return false;
}

static int read_when(const json_t *json, const char *where, struct atoll_guard_hook *hook,
                     struct atoll_error *err)
{
    const json_t *when = json_object_get(json, "when");

    hook->before = !when || has_text(when, "before");
    hook->after = has_text(when, "after");
    if (when && (size_t)hook->before + (size_t)hook->after != json_array_size(when))
        return refuse(err, where, "when", "an array of before and after");
    return !when || json_array_size(when) > 0
               ? 0
               : refuse(err, where, "when", "an array of before and after");
}

static int read_hook(struct atoll_guard_policy *policy, json_t *json, const char *where,
                     struct atoll_error *err)
{
    static const char *const known[] = {"name",           "url",     "secret", "tools", "when",
                                        "timeoutSeconds", "onError", NULL};
    struct atoll_guard_hook *hook = &policy->hooks[policy->hook_count];
    const json_t *on_error = json_object_get(json, "onError");
    uint32_t timeout_s = 5;
    int r = check_members(json, known, where, err);

    if (r == 0)
        r = read_text(json, where, "name", 64, &hook->name, err);
    if (r == 0)
        r = read_text(json, where, "url", 2048, &hook->url, err);
    if (r == 0 && (!hook->url || (strncmp(hook->url, "https://", 8) != 0 &&
                                  strncmp(hook->url, "http://", 7) != 0)))
        r = refuse(err, where, "url", "an address that begins with https:// or http://");
    if (r == 0)
        r = read_text(json, where, "secret", 256, &hook->secret, err);
    if (r == 0)
        r = read_tools(json, where, &hook->tools, err);
    if (r == 0)
        r = read_when(json, where, hook, err);
    if (r == 0)
        r = read_seconds(json, where, "timeoutSeconds", 60, &timeout_s, err);
    if (r == 0 && on_error && !json_is_string(on_error))
        r = refuse(err, where, "onError", "deny or allow");
    hook->fails_open =
        on_error &&
        strcmp(json_string_value(on_error) ? json_string_value(on_error) : "", "allow") == 0;
    if (r == 0 && on_error && !hook->fails_open && strcmp(json_string_value(on_error), "deny") != 0)
        r = refuse(err, where, "onError", "deny or allow");
    hook->timeout_ms = timeout_s * 1000;
    if (!hook->name)
        hook->name = hook->url;
    policy->hook_count += r == 0;
    return r;
}

static int read_list(struct atoll_guard_policy *policy, const char *name, size_t most,
                     int (*read)(struct atoll_guard_policy *policy, json_t *json, const char *where,
                                 struct atoll_error *err),
                     struct atoll_error *err)
{
    json_t *list = json_object_get(policy->json, name);
    char where[64];
    int r = 0;

    if (list && !json_is_array(list))
        return refuse(err, "", name, "an array");
    if (json_array_size(list) > most)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "toolPolicy: %s has more than %zu elements", name, most);
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
        (void)snprintf(where, sizeof(where), "%s[%zu]", name, i);
        r = read(policy, json_array_get(list, i), where, err);
    }
    return r;
}

static int parse(struct atoll_guard_policy *policy, struct atoll_error *err)
{
    static const char *const known[] = {"rules",      "default",      "unclear",
                                        "askSeconds", "interceptors", NULL};
    char *text = json_dumps(policy->json, JSON_COMPACT);
    size_t n = text ? strlen(text) : 0;
    int r = check_members(policy->json, known, "", err);

    free(text);
    if (r == 0 && (n == 0 || n > ATOLL_GUARD_POLICY_MAX))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "toolPolicy has more than %zu KiB",
                       ATOLL_GUARD_POLICY_MAX / 1024);
    if (r == 0)
        r = read_list(policy, "rules", ATOLL_GUARD_RULES_MAX, read_rule, err);
    if (r == 0)
        r = read_list(policy, "interceptors", ATOLL_GUARD_HOOKS_MAX, read_hook, err);
    if (r == 0)
        r = read_verdict(policy->json, "", "default", &policy->otherwise, err);
    if (r == 0)
        r = read_verdict(policy->json, "", "unclear", &policy->unclear, err);
    if (r == 0)
        r = read_seconds(policy->json, "", "askSeconds", ATOLL_GUARD_ASK_S_MAX, &policy->ask_s,
                         err);
    return r;
}

int atoll_guard_policy_check(const json_t *json, struct atoll_error *err)
{
    const json_t *rules = json_object_get(json, "rules");

    for (size_t i = 0; i < json_array_size(rules); i++) {
        const char *command =
            json_string_value(json_object_get(json_array_get(rules, i), "command"));
        if (command && atoll_pattern_check(command, err) < 0)
            return atoll_wrap(err, "toolPolicy: rules[%zu]", i);
    }
    return 0;
}

int atoll_guard_policy_parse(const json_t *json, struct atoll_guard_policy **ret,
                             struct atoll_error *err)
{
    struct atoll_guard_policy *policy = atoll_alloc(sizeof(*policy));
    int r;

    policy->refs = 1;
    policy->json = json_deep_copy(json);
    policy->otherwise = ATOLL_GUARD_ALLOW;
    policy->unclear = ATOLL_GUARD_ASK;
    policy->ask_s = ATOLL_GUARD_ASK_S;
    r = policy->json ? parse(policy, err) : atoll_fail_errno(err, ENOMEM, "policy");
    if (r < 0)
        (void)atoll_guard_policy_free(policy);
    else
        *ret = policy;
    return r;
}

struct atoll_guard_policy *atoll_guard_policy_ref(struct atoll_guard_policy *policy)
{
    policy->refs++;
    return policy;
}

struct atoll_guard_policy *atoll_guard_policy_free(struct atoll_guard_policy *policy)
{
    if (!policy || --policy->refs > 0)
        return NULL;
    for (size_t i = 0; i < policy->rule_count; i++)
        atoll_pattern_done(&policy->rules[i].command);
    json_decref(policy->json);
    free(policy);
    return NULL;
}

const json_t *atoll_guard_policy_json(const struct atoll_guard_policy *policy)
{
    return policy->json;
}

json_t *atoll_guard_policy_show(const struct atoll_guard_policy *policy)
{
    json_t *shown = json_deep_copy(policy->json);
    json_t *hooks = json_object_get(shown, "interceptors");

    for (size_t i = 0; i < json_array_size(hooks); i++) {
        json_t *hook = json_array_get(hooks, i);

        if (json_object_del(hook, "secret") == 0)
            (void)json_object_set_new(hook, "hasSecret", json_true());
    }
    return shown;
}

uint32_t atoll_guard_policy_ask_s(const struct atoll_guard_policy *policy)
{
    return policy->ask_s;
}

const struct atoll_guard_hook *atoll_guard_policy_hook(const struct atoll_guard_policy *policy,
                                                       size_t i)
{
    return i < policy->hook_count ? &policy->hooks[i] : NULL;
}

/* Deciding. */

static bool has_name(const json_t *tools, const char *name)
{
    for (size_t i = 0; name && i < json_array_size(tools); i++)
        if (atoll_glob_match(json_string_value(json_array_get(tools, i)), name))
            return true;
    return false;
}

static bool names_tool(const json_t *tools, const struct atoll_guard_subject *subject)
{
    return !tools || has_name(tools, subject->tool) || has_name(tools, subject->mcp_name);
}

/* Rules that ask or deny are also about other ways to do the same. */
static bool is_about(const struct rule *rule, const struct atoll_guard_subject *subject)
{
    if (names_tool(rule->tools, subject))
        return true;
    if (rule->verdict == ATOLL_GUARD_ALLOW)
        return false;
    for (const char *const *name = subject->like; name && *name; name++)
        if (has_name(rule->tools, *name))
            return true;
    return subject->command_is_made && rule->has_command &&
           (has_name(rule->tools, "Bash") || has_name(rule->tools, "run_command"));
}

static bool is_about_commands(const struct rule *rule, const struct atoll_guard_subject *subject)
{
    return rule->has_command && is_about(rule, subject) &&
           (!subject->command_is_made || rule->verdict != ATOLL_GUARD_ALLOW);
}

bool atoll_guard_hook_wants(const struct atoll_guard_hook *hook,
                            const struct atoll_guard_subject *subject)
{
    return names_tool(hook->tools, subject);
}

/* Removes "//", "/." and "/.." of an absolute path. */
static void clean_path(const char *path, char out[static PATH_MAX_BYTES + 1])
{
    size_t n = 0;

    for (const char *p = path; *p;) {
        size_t slashes = strspn(p, "/"), len = strcspn(p + slashes, "/");
        const char *part = p + slashes;

        p = part + len;
        if (len == 0 || (len == 1 && *part == '.'))
            continue;
        if (len == 2 && part[0] == '.' && part[1] == '.') {
            while (n > 0 && out[--n] != '/')
                ;
            continue;
        }
        if (n + 1 + len > PATH_MAX_BYTES)
            break;
        out[n++] = '/';
        memcpy(out + n, part, len);
        n += len;
    }
    if (n == 0)
        out[n++] = '/';
    out[n] = '\0';
}

/* Whether what the pattern is about can be in the directory: as many components of the pattern as the directory has
 * match it, without "**". Cuts the pattern there. */
static bool is_above(const char *path, char *pattern)
{
    char *at = pattern;

    for (const char *part = path; part && *part; part = strchr(part, '/')) {
        size_t n;

        part += *part == '/';
        at += part > path && *at == '/';
        n = strcspn(at, "/");
        if (n == 0 || (n == 2 && memcmp(at, "**", 2) == 0))
            return false;
        at += n;
    }
    *at = '\0';
    return !*path || atoll_glob_match_dots(pattern, path);
}

/* given: NULL or absolute. Rules that ask or deny are also about a path that is too long to be compared. */
static bool match_one_path(const struct rule *rule, const struct atoll_guard_subject *subject,
                           const char *given)
{
    char path[PATH_MAX_BYTES + 1], text[2 * ATOLL_PATTERN_MAX + 2], *pattern = text;
    const char *p = rule->path;
    bool allows = rule->verdict == ATOLL_GUARD_ALLOW;

    if (!given)
        return false;
    if (strlen(given) > PATH_MAX_BYTES)
        return !allows;
    clean_path(given, path);
    if (*p == '~')
        (void)snprintf(text, sizeof(text), "%.*s%s", ATOLL_PATTERN_MAX, subject->home, p + 1);
    else
        (void)snprintf(text, sizeof(text), "%s", p);
    pattern += *pattern == '/';
    if (atoll_glob_match_dots(pattern, path + 1))
        return true;
    return subject->with_content && !allows && is_above(path + 1, pattern);
}

static bool match_file(const struct rule *rule, const struct atoll_guard_subject *subject,
                       const char *name, size_t *work)
{
    char path[2 * PATH_MAX_BYTES + 2];
    size_t cost;

    if (!name || strlen(name) > PATH_MAX_BYTES || strlen(subject->path) > PATH_MAX_BYTES)
        return rule->verdict != ATOLL_GUARD_ALLOW;
    (void)snprintf(path, sizeof(path), "%s%s%s", *name == '/' ? "" : subject->path,
                   *name == '/' ? "" : "/", name);
    cost = (strlen(path) + 1) * (strlen(rule->path) + 1);
    if (*work < cost) {
        *work = 0;
        return rule->verdict != ATOLL_GUARD_ALLOW;
    }
    *work -= cost;
    return match_one_path(rule, subject, path);
}

/* A call about several paths must be allowed at all of them; one of them is enough to ask or deny. */
static bool match_path(const struct rule *rule, const struct atoll_guard_subject *subject,
                       size_t *work)
{
    bool found = match_one_path(rule, subject, subject->path);
    bool allows = rule->verdict == ATOLL_GUARD_ALLOW;

    if (subject->target && found == allows)
        found = match_one_path(rule, subject, subject->target);
    for (size_t i = 0; found == allows && subject->path && i < json_array_size(subject->files); i++)
        found =
            match_file(rule, subject, json_string_value(json_array_get(subject->files, i)), work);
    return found;
}

static void take(const struct atoll_guard_policy *policy, const struct rule *rule,
                 enum atoll_guard_verdict verdict, struct atoll_guard_decision *ret)
{
    static const char *const said[] = {"the rules allow it", "the rules want a human to allow it",
                                       "the rules do not allow it"};

    ret->verdict = verdict;
    (void)snprintf(ret->by, sizeof(ret->by), "rule %zu", (size_t)(rule - policy->rules) + 1);
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s",
                   rule->reason ? rule->reason : said[verdict]);
}

static void take_default(const struct atoll_guard_policy *policy, struct atoll_guard_decision *ret)
{
    ret->verdict = policy->otherwise;
    (void)snprintf(ret->by, sizeof(ret->by), "default");
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s",
                   policy->otherwise == ATOLL_GUARD_ALLOW ? "no rule says otherwise"
                                                          : "no rule allows it");
}

static void take_unclear(const struct atoll_guard_policy *policy, const char *why,
                         struct atoll_guard_decision *ret)
{
    ret->verdict = policy->unclear;
    (void)snprintf(ret->by, sizeof(ret->by), "unclear");
    (void)snprintf(ret->reason, sizeof(ret->reason), "%.290s", why);
}

/* The strictest of the rules that match, first one first. False: none does. command NULL: rules about the whole
 * call. *work bounds what is compared. */
static bool apply_rules(const struct atoll_guard_policy *policy,
                        const struct atoll_guard_subject *subject,
                        const struct atoll_shell_command *command, size_t *work,
                        struct atoll_guard_decision *ret)
{
    bool found = false;

    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct rule *rule = &policy->rules[i];
        enum atoll_match match = ATOLL_MATCH_YES;
        struct atoll_guard_decision one;

        if (command ? !is_about_commands(rule, subject)
                    : rule->has_command || !is_about(rule, subject) ||
                          (rule->path && !match_path(rule, subject, work)))
            continue;
        if (command)
            match = atoll_pattern_match(&rule->command, command, work);
        if (match == ATOLL_MATCH_YES)
            take(policy, rule, rule->verdict, &one);
        else if (match == ATOLL_MATCH_MAYBE && rule->verdict != ATOLL_GUARD_ALLOW)
            take_unclear(policy,
                         "the command may be one that the rules do not allow: write it without "
                         "variables and substitutions",
                         &one);
        else
            continue;
        if (!found || one.verdict > ret->verdict)
            *ret = one;
        found = true;
    }
    return found;
}

static void stricter(struct atoll_guard_decision *ret, const struct atoll_guard_decision *other)
{
    if (other->verdict > ret->verdict)
        *ret = *other;
}

static bool has_command_rules(const struct atoll_guard_policy *policy,
                              const struct atoll_guard_subject *subject)
{
    for (size_t i = 0; i < policy->rule_count; i++)
        if (is_about_commands(&policy->rules[i], subject))
            return true;
    return false;
}

/* Each command of the text is decided; the strictest decision holds. whole: what rules about the call say. */
static void decide_commands(const struct atoll_guard_policy *policy,
                            const struct atoll_guard_subject *subject,
                            const struct atoll_guard_decision *whole,
                            struct atoll_guard_decision *ret)
{
    struct atoll_shell shell;
    struct atoll_guard_decision one;
    struct atoll_error error;
    size_t work = WORK_MAX;
    bool first = atoll_shell_parse(subject->command, strlen(subject->command), &shell, &error) == 0;

    *ret = *whole;
    if (!first) {
        take_unclear(policy, error.text, &one);
        stricter(ret, &one);
    }
    for (size_t i = 0; i < shell.count; i++) {
        if (!apply_rules(policy, subject, &shell.commands[i], &work, &one)) {
            if (shell.commands[i].runs_others)
                continue;
            one = *whole;
        }
        if (first || one.verdict > ret->verdict)
            *ret = one;
        first = false;
    }
    atoll_shell_done(&shell);
}

void atoll_guard_decide(const struct atoll_guard_policy *policy,
                        const struct atoll_guard_subject *subject, struct atoll_guard_decision *ret)
{
    struct atoll_guard_decision whole = {0};
    size_t work = PATHS_WORK_MAX;
    bool by_rule = apply_rules(policy, subject, NULL, &work, &whole);

    if (!by_rule)
        take_default(policy, &whole);
    *ret = whole;
    if (subject->command && has_command_rules(policy, subject)) {
        decide_commands(policy, subject, &whole, ret);
        /* A rule about the whole call that asks or denies is not weakened by one about commands. */
        if (by_rule)
            stricter(ret, &whole);
    }
}
