/*
 * The languages that have drivers. drivers/manifest.json and the files it names are read once, at
 * start, so that a sandbox gets the drivers that belong to this daemon.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/text.h"
#include "interpreter/contexts_internal.h"

#define MANIFEST "manifest.json"
#define MANIFEST_MAX ((size_t)64 * 1024)
#define DRIVER_MAX ((size_t)1024 * 1024)
#define STRINGS_MAX 16
#define DRIVER_MARK "{driver}"

static int refuse(struct atoll_error *err, const char *language, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "drivers/" MANIFEST ": %.64s: %s",
                      language, what);
}

static char **free_strings(char **strings)
{
    for (size_t i = 0; strings && strings[i]; i++)
        free(strings[i]);
    free(strings);
    return NULL;
}

/* Reads an array of at least `min` non-empty strings; an absent field is an empty array. */
static int take_strings(const json_t *object, const char *key, size_t min, char ***ret)
{
    const json_t *array = json_object_get(object, key);
    size_t n = json_array_size(array);
    char **strings;

    if ((array && !json_is_array(array)) || n < min || n > STRINGS_MAX)
        return -EINVAL;
    strings = atoll_context_alloc((n + 1) * sizeof(*strings));
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(array, i));
        if (!text || !*text) {
            (void)free_strings(strings);
            return -EINVAL;
        }
        strings[i] = strdup(text);
        if (!strings[i])
            abort(); /* at start: there is no state to lose */
    }
    *ret = strings;
    return 0;
}

static int read_driver(int dir_fd, struct atoll_language *l, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = openat(dir_fd, l->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errno, "drivers/%s: %s", l->file,
                          strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size == 0 || (size_t)st.st_size > DRIVER_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "drivers/%s: must be a file of 1 byte to %zu KiB", l->file,
                          DRIVER_MAX >> 10);
    l->driver_len = (size_t)st.st_size;
    l->driver = atoll_context_alloc(l->driver_len);
    return atoll_fd_read_all(fd, l->driver, l->driver_len) < 0
               ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EIO, "drivers/%s: cannot be read",
                            l->file)
               : 0;
}

static bool is_language(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n <= 32 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789+-_") == n;
}

static int check_keys(const char *name, json_t *object, struct atoll_error *err)
{
    static const char *const known[] = {"file", "run", "requires", "aliases", "install"};
    const char *key;
    json_t *value;
    char what[100];

    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (i < ATOLL_ARRAY_LEN(known) && strcmp(known[i], key) != 0)
            i++;
        (void)snprintf(what, sizeof(what), "there is no \"%.40s\"", key);
        if (i == ATOLL_ARRAY_LEN(known))
            return refuse(err, name, what);
    }
    return 0;
}

static int count_marks(char **run)
{
    int marks = 0;

    for (size_t i = 0; run[i]; i++)
        marks += strcmp(run[i], DRIVER_MARK) == 0;
    return marks;
}

static int take_language(struct atoll_language *l, const char *name, json_t *object, int dir_fd,
                         struct atoll_error *err)
{
    const char *file = json_string_value(json_object_get(object, "file"));
    const char *install = json_string_value(json_object_get(object, "install"));

    if (!is_language(name) || !json_is_object(object))
        return refuse(err, name, "a language must be an object under a short name in lower case");
    if (check_keys(name, object, err) < 0)
        return -EINVAL;
    if (!file || !atoll_text_is_name(file) || !install || strlen(install) > 200)
        return refuse(err, name, "\"file\" and \"install\" must be short strings");
    if (take_strings(object, "run", 1, &l->run) < 0 || count_marks(l->run) != 1)
        return refuse(err, name, "\"run\" must be a command with \"" DRIVER_MARK "\" once");
    if (take_strings(object, "requires", 0, &l->requires) < 0 ||
        take_strings(object, "aliases", 0, &l->aliases) < 0)
        return refuse(err, name, "\"requires\" and \"aliases\" must be arrays of strings");
    l->install = strdup(install);
    if (!l->install)
        abort(); /* at start: there is no state to lose */
    (void)snprintf(l->name, sizeof(l->name), "%s", name);
    (void)snprintf(l->file, sizeof(l->file), "%s", file);
    return read_driver(dir_fd, l, err);
}

static int take_all(struct atoll_contexts *contexts, json_t *root, int dir_fd,
                    struct atoll_error *err)
{
    const char *name;
    json_t *object;
    int r = 0;

    if (!json_is_object(root) || json_object_size(root) > ATOLL_LANGUAGES_MAX)
        return refuse(err, "it", "must be an object of at most 32 languages");
    json_object_foreach(root, name, object)
    {
        r = take_language(&contexts->languages[contexts->language_count++], name, object, dir_fd,
                          err);
        if (r < 0)
            break;
    }
    return r;
}

int atoll_languages_load(struct atoll_contexts *contexts, const char *dir, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = atoll_context_alloc(MANIFEST_MAX);
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    json_error_t why;
    json_t *root;
    int r;

    if (!dir || !*dir)
        return 0;
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = fd < 0 ? -errno : atoll_fd_read_file(fd, MANIFEST, text, MANIFEST_MAX);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, -r,
                          "cannot read " MANIFEST " of the drivers: %s", strerror(-r));
    root = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "drivers/" MANIFEST ":%d:%d: %.100s", why.line, why.column, why.text);
    r = take_all(contexts, root, fd, err);
    json_decref(root);
    return r;
}

void atoll_languages_free(struct atoll_contexts *contexts)
{
    for (size_t i = 0; i < contexts->language_count; i++) {
        struct atoll_language *l = &contexts->languages[i];
        l->run = free_strings(l->run);
        l->requires = free_strings(l->requires);
        l->aliases = free_strings(l->aliases);
        free(l->install);
        free(l->driver);
    }
    contexts->language_count = 0;
}

static bool is_called(const struct atoll_language *l, const char *name)
{
    if (strcasecmp(l->name, name) == 0)
        return true;
    for (size_t i = 0; l->aliases[i]; i++)
        if (strcasecmp(l->aliases[i], name) == 0)
            return true;
    return false;
}

int atoll_language_find(const struct atoll_contexts *contexts, const char *name,
                        const struct atoll_language **ret, struct atoll_error *err)
{
    char known[200] = "";
    size_t len = 0;

    for (size_t i = 0; i < contexts->language_count; i++) {
        if (is_called(&contexts->languages[i], name)) {
            *ret = &contexts->languages[i];
            return 0;
        }
        if (len < sizeof(known))
            len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "",
                                    contexts->languages[i].name);
    }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "there is no interpreter for the language \"%.32s\"; there are: %s", name,
                      *known ? known : "none, the daemon has no drivers");
}
