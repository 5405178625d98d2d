#include "api/e2b/template_steps.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define USER "user"
#define HOME "/home/user"

/* Commands run in a login shell: bash, if the base has it. */
static const char shell_script[] =
    "[ -x /bin/bash ] && exec /bin/bash -l -c \"$1\"; exec /bin/sh -l -c \"$1\"";

/* Makes the user that clients expect. Another user may have the same id: the first line of the file
 * gives an id its name. */
static const char provision_script[] =
    "set -e; umask 022; mkdir -p /etc /tmp " HOME "; "
    "for f in /etc/passwd /etc/group; do [ -e $f ] || : > $f; done; "
    "shell=/bin/sh; [ -x /bin/bash ] && shell=/bin/bash; "
    "add() { grep -q '^" USER ":' $1 && return; "
    "{ grep '^root:' $1 || echo \"$2\"; echo \"$3\"; grep -v '^root:' $1 || true; } > $1.new; "
    "cat $1.new > $1; rm $1.new; }; "
    "add /etc/passwd root:x:0:0:root:/root:/bin/sh \"" USER ":x:1000:1000:" USER ":" HOME
    ":$shell\"; "
    "add /etc/group root:x:0: " USER ":x:1000:; "
    "chown 1000:1000 " HOME;

struct maker {
    struct atoll_recipe *recipe;
    struct atoll_e2b_recipe *ret;
    const char *user; /* in the recipe's memory, or static */
    int line;
    bool fresh; /* of the step of the client */
    struct atoll_error *err;
};

static int no_memory(struct maker *m)
{
    return atoll_fail(m->err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "the template is too large");
}

static int refuse(struct maker *m, const char *what)
{
    return atoll_fail(m->err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "step %d: %s", m->line, what);
}

static const char *keep(struct maker *m, const char *text)
{
    return atoll_recipe_text(&m->recipe->memory, text, strlen(text));
}

/* A recipe has quotes, backslashes and variables; in what a client sends, the characters of `plain`
 * are meant as they are. */
static const char *keep_quoted(struct maker *m, const char *text, const char *plain)
{
    char *out = atoll_recipe_alloc(&m->recipe->memory, 2 * strlen(text) + 1), *p = out;

    for (; out && *text; *p++ = *text++)
        if (strchr(plain, *text))
            *p++ = '\\';
    return out;
}

static const char *keep_literal(struct maker *m, const char *text)
{
    return keep_quoted(m, text, "$\\\"'");
}

/* Values may refer to variables that were set before. */
static const char *keep_value(struct maker *m, const char *text)
{
    return keep_quoted(m, text, "\\\"'");
}

static const char *keep_form(struct maker *m, const char *form, const char *a, const char *b)
{
    size_t cap = strlen(form) + strlen(a) + strlen(b) + 1;
    char *out = atoll_recipe_alloc(&m->recipe->memory, cap);

    if (out)
        (void)snprintf(out, cap, "%s%s%s", form, a, b);
    return out;
}

/* Appends the step; `words` are its arguments. */
static int add(struct maker *m, struct atoll_recipe_step *step, const char *const *words, size_t n)
{
    const char **args = atoll_recipe_alloc(&m->recipe->memory, (n + 1) * sizeof(*args));

    for (size_t i = 0; args && i < n; i++) {
        if (!words[i])
            return no_memory(m);
        args[i] = words[i];
    }
    if (!args || !step->text)
        return no_memory(m);
    step->line = step->last_line = m->line;
    step->fresh = m->fresh;
    step->args = args;
    step->arg_count = n;
    return atoll_recipe_add_step(m->recipe, step, m->err);
}

static int add_text(struct maker *m, enum atoll_recipe_kind kind, const char *value)
{
    const char *const words[] = {keep_literal(m, value)};
    struct atoll_recipe_step step = {
        .kind = kind, .text = keep_form(m, atoll_recipe_kind_name(kind), " ", value)};

    return add(m, &step, words, 1);
}

/* Runs a script of this file. */
static int add_script(struct maker *m, const char *text, const char *script, const char *arg)
{
    const char *const words[] = {"/bin/sh", "-c", script, "sh", keep(m, arg)};
    struct atoll_recipe_step step = {.kind = ATOLL_RECIPE_RUN, .json = true, .text = text};

    return add(m, &step, words, ATOLL_ARRAY_LEN(words));
}

/* Steps of clients. `args` are texts. */

static const char *arg_of(const json_t *args, size_t i)
{
    const char *text = json_string_value(json_array_get(args, i));
    return text ? text : "";
}

static int add_run(struct maker *m, const json_t *step)
{
    const json_t *args = json_object_get(step, "args");
    const char *command = arg_of(args, 0), *user = arg_of(args, 1);
    bool other;
    int r;

    if (!*command)
        return refuse(m, "RUN needs a command");
    if (strlen(command) > ATOLL_E2B_COMMAND_MAX)
        return refuse(m, "the command must be at most 64 KiB");
    other = *user && strcmp(user, m->user) != 0;
    r = other ? add_text(m, ATOLL_RECIPE_USER, user) : 0;
    if (r == 0)
        r = add_script(m, keep_form(m, "RUN ", command, ""), shell_script, command);
    return r < 0 || !other ? r : add_text(m, ATOLL_RECIPE_USER, m->user);
}

static int add_workdir(struct maker *m, const json_t *step)
{
    const char *path = arg_of(json_object_get(step, "args"), 0);

    return *path ? add_text(m, ATOLL_RECIPE_WORKDIR, path) : refuse(m, "WORKDIR needs a path");
}

static int add_user(struct maker *m, const json_t *step)
{
    const char *user = keep(m, arg_of(json_object_get(step, "args"), 0));

    if (!user)
        return no_memory(m);
    if (!*user)
        return refuse(m, "USER needs a name");
    m->user = user;
    return add_text(m, ATOLL_RECIPE_USER, user);
}

static int add_env(struct maker *m, const json_t *step)
{
    const json_t *args = json_object_get(step, "args");
    size_t n = json_array_size(args) / 2;
    struct atoll_recipe_pair *pairs =
        atoll_recipe_alloc(&m->recipe->memory, (n + 1) * sizeof(*pairs));
    struct atoll_recipe_step made = {.kind = ATOLL_RECIPE_ENV, .text = "ENV", .pairs = pairs};

    if (!pairs)
        return no_memory(m);
    if (n == 0 || json_array_size(args) % 2 != 0)
        return refuse(m, "ENV needs names and values");
    for (size_t i = 0; i < n; i++) {
        const char *name = arg_of(args, 2 * i);
        if (!*name || strpbrk(name, "= \t\n"))
            return refuse(m, "ENV: a name must not be empty and have no \"=\" and no space");
        pairs[i].name = keep(m, name);
        pairs[i].value = keep_value(m, arg_of(args, 2 * i + 1));
        if (!pairs[i].name || !pairs[i].value)
            return no_memory(m);
        made.text = keep_form(m, made.text, " ", pairs[i].name);
        if (!made.text)
            return no_memory(m);
    }
    made.pair_count = n;
    return add(m, &made, NULL, 0);
}

bool atoll_e2b_hash_is_valid(const char *hash)
{
    return strspn(hash, "0123456789abcdef") == ATOLL_E2B_HASH_LEN && !hash[ATOLL_E2B_HASH_LEN];
}

static void need_context(struct maker *m, const char *name)
{
    struct atoll_e2b_recipe *ret = m->ret;

    for (size_t i = 0; i < ret->context_count; i++)
        if (strcmp(ret->contexts[i], name) == 0)
            return;
    ret->contexts[ret->context_count++] = name;
}

/*
 * The tree to copy from has only the files that the client's pattern matched, below the paths that
 * they have in its folder. So a pattern stands for the whole content of the folder in front of its
 * first special character.
 */
static const char *source_of(struct maker *m, const char *pattern)
{
    size_t n = strcspn(pattern, "*?[{");
    char *folder;

    if (!pattern[n])
        return keep_literal(m, pattern);
    while (n > 0 && pattern[n - 1] != '/')
        n--;
    folder = n > 0 ? atoll_recipe_text(&m->recipe->memory, pattern, n) : NULL;
    if (n > 0 && !folder)
        return NULL;
    return keep_literal(m, folder ? folder : "./");
}

static const char *dest_of(struct maker *m, const char *pattern, const char *dest)
{
    bool is_folder = strpbrk(pattern, "*?[{") && (!*dest || dest[strlen(dest) - 1] != '/');
    const char *text = keep_form(m, *dest ? dest : ".", is_folder ? "/" : "", "");

    return text ? keep_literal(m, text) : NULL;
}

static int add_copy(struct maker *m, const json_t *step)
{
    const json_t *args = json_object_get(step, "args");
    const char *hash = json_string_value(json_object_get(step, "filesHash"));
    const char *source = arg_of(args, 0), *owner = arg_of(args, 2), *mode = arg_of(args, 3);
    struct atoll_recipe_step made = {.kind = ATOLL_RECIPE_COPY};
    const char *word;

    if (!hash || !atoll_e2b_hash_is_valid(hash))
        return refuse(m, "COPY needs filesHash, the SHA-256 of the files");
    if (!*source || source[0] == '/')
        return refuse(m, "COPY needs a source, a path in the folder of the template");
    if (mode[strspn(mode, "01234567")] || strlen(mode) > 5)
        return refuse(m, "COPY: the mode must be octal");
    made.text = keep_form(m, keep_form(m, "COPY ", source, " ") ?: "", arg_of(args, 1), "");
    made.flags.from = keep_form(m, ATOLL_E2B_FILES, hash, "");
    made.flags.chown = *owner ? keep_literal(m, owner) : m->user;
    made.flags.chmod = *mode ? keep(m, mode) : NULL;
    made.flags.unpack = -1;
    made.dest = dest_of(m, source, arg_of(args, 1));
    word = source_of(m, source);
    if (!made.flags.from || !made.flags.chown || !made.dest || (*mode && !made.flags.chmod))
        return no_memory(m);
    need_context(m, made.flags.from);
    return add(m, &made, &word, 1);
}

static const struct {
    const char *type;
    int (*add)(struct maker *m, const json_t *step);
} kinds[] = {
    {"COPY", add_copy}, {"ENV", add_env},         {"RUN", add_run},
    {"USER", add_user}, {"WORKDIR", add_workdir},
};

static int check_args(struct maker *m, const json_t *args)
{
    if (args && !json_is_array(args))
        return refuse(m, "args must be an array of strings");
    if (json_array_size(args) > ATOLL_RECIPE_WORDS_MAX)
        return refuse(m, "too many args");
    for (size_t i = 0; i < json_array_size(args); i++)
        if (!json_is_string(json_array_get(args, i)))
            return refuse(m, "args must be an array of strings");
    return 0;
}

static int add_client_step(struct maker *m, const json_t *step)
{
    const char *type = json_string_value(json_object_get(step, "type"));
    int r;

    if (!type)
        return refuse(m, "must be an object with the field type");
    r = check_args(m, json_object_get(step, "args"));
    if (r < 0)
        return r;
    m->fresh = json_is_true(json_object_get(step, "force"));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(kinds); i++)
        if (strcmp(type, kinds[i].type) == 0)
            return kinds[i].add(m, step);
    return refuse(m, "unknown type; COPY, ENV, RUN, USER and WORKDIR are known");
}

static int add_base(struct maker *m, const struct atoll_e2b_base *base)
{
    const char *workdir = base->workdir && *base->workdir ? base->workdir : HOME;
    const char *text = keep_form(m, "FROM ", base->reference, "");
    int r = text ? atoll_recipe_add_stage(m->recipe, NULL, base->reference, NULL, text, 0, m->err)
                 : no_memory(m);

    m->user = "root";
    if (r == 0 && !base->has_user)
        r = add_text(m, ATOLL_RECIPE_USER, "root");
    if (r == 0 && !base->has_user)
        r = add_script(m, "RUN adduser " USER, provision_script, "");
    m->user = base->user && *base->user ? keep(m, base->user) : USER;
    if (!m->user)
        return no_memory(m);
    if (r == 0)
        r = add_text(m, ATOLL_RECIPE_USER, m->user);
    return r < 0 ? r : add_text(m, ATOLL_RECIPE_WORKDIR, workdir);
}

int atoll_e2b_recipe_make(const struct atoll_e2b_definition *d, const struct atoll_e2b_base *base,
                          struct atoll_e2b_recipe *ret, struct atoll_error *err)
{
    struct maker m = {.recipe = atoll_recipe_new(), .ret = ret, .err = err};
    size_t count = json_array_size(d->steps);
    int r = 0;

    *ret = (struct atoll_e2b_recipe){.recipe = m.recipe, .force = d->force};
    if (d->steps && !json_is_array(d->steps))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "steps must be an array");
    else if (count > ATOLL_E2B_STEPS_MAX)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "a template has at most %d steps",
                       ATOLL_E2B_STEPS_MAX);
    if (r == 0)
        ret->contexts = atoll_recipe_alloc(&m.recipe->memory, (count + 1) * sizeof(*ret->contexts));
    if (r == 0 && !ret->contexts)
        r = no_memory(&m);
    if (r == 0)
        r = add_base(&m, base);
    for (size_t i = 0; r == 0 && i < count; i++) {
        m.line = (int)i + 1;
        r = add_client_step(&m, json_array_get(d->steps, i));
    }
    if (r < 0)
        atoll_e2b_recipe_done(ret);
    return r;
}

void atoll_e2b_recipe_done(struct atoll_e2b_recipe *recipe)
{
    recipe->recipe = atoll_recipe_free(recipe->recipe);
}
