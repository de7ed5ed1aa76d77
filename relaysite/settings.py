"""The one settings file. Everything comes from the environment; README.md lists each name."""

from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from relaysite.environment import Environment

env = Environment()
BASE_DIR = Path(__file__).resolve().parent.parent

RELAY_VAR = env.folder("RELAY_VAR", BASE_DIR / "var")
SECRET_KEY = env.secret("SECRET_KEY", RELAY_VAR / "secret_key")
DEBUG = env.boolean("DEBUG", False)
PUBLIC_URL = env.address("PUBLIC_URL", "http://127.0.0.1:8000")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", ["127.0.0.1", "localhost", "[::1]", urlsplit(PUBLIC_URL).hostname or ""])
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
SITE_POLICY = env.policy("SITE_POLICY")
SITE_PRICES = env.prices("SITE_PRICES")
SESSION_ROOTS = env.session_roots("SESSION_ROOTS")
KEEP_TRANSCRIPTS = env.boolean("KEEP_TRANSCRIPTS", False)
NOTIFY_URLS = env.notify_urls("NOTIFY_URLS")
NOTIFY_PRIVATE = env.boolean("NOTIFY_PRIVATE", False)
HOOKS_BLOCK_COMPACTION = env.boolean("HOOKS_BLOCK_COMPACTION", False)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "csp",
    "relays",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "relaysite.assets.Middleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "relays.views.viewer.middleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "relays.views.visible.middleware",
]
ROOT_URLCONF = "relaysite.urls"
ASGI_APPLICATION = "relaysite.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [("django.template.loaders.cached.Loader", ["relaysite.templates.Unindented"])],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "relays.views.shell.shell",
            ],
            "builtins": [f"relays.templatetags.{name}" for name in ("words", "explain", "pointers")],
        },
    }
]

DATABASES = {"default": env.database("DATABASE_URL", RELAY_VAR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ATOMIC_REQUESTS = False  # a read page must not be an IMMEDIATE writer

LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in/"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PUBLIC_URL.startswith("https://")
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE = "en"
USE_I18N = True
# English stands in the code; `make messages LANG=de` begins another one, and it is offered once it is there
LOCALE_PATHS = [BASE_DIR / "relaysite" / "locale"]
LANGUAGES = env.languages(LOCALE_PATHS[0])
LANGUAGE_COOKIE_NAME = "rs-language"
USE_TZ = True
TIME_ZONE = env.text("TIME_ZONE", "UTC")
try:
    ZoneInfo(TIME_ZONE)
except (ZoneInfoNotFoundError, ValueError, OSError) as error:
    raise ImproperlyConfigured(f"TIME_ZONE={TIME_ZONE!r} is malformed: set it to a name such as UTC.") from error

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = RELAY_VAR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "relaysite.assets.Storage"},
}
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_MAX_AGE = 300

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "form-action": [SELF],
    }
}
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

CELERY_BROKER_URL = env.broker("BROKER_URL", RELAY_VAR)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_TIME_LIMIT = 90
CELERY_TASK_SOFT_TIME_LIMIT = 60
CELERY_TASK_DEFAULT_QUEUE = "drive"
CELERY_WORKER_MAX_TASKS_PER_CHILD = 500
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, object]
if CELERY_BROKER_URL.startswith("sqla+"):
    # one message fetched at a time made a polling transport five times slower
    CELERY_WORKER_PREFETCH_MULTIPLIER = 4
    CELERY_BROKER_TRANSPORT_OPTIONS = {"connect_args": {"timeout": 20}}
    CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
else:
    CELERY_WORKER_PREFETCH_MULTIPLIER = 1
    CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 300} if CELERY_BROKER_URL.startswith("redis") else {}
CELERY_BEAT_SCHEDULE = {
    "reconcile": {"task": "relays.tasks.reconcile", "schedule": 2.0, "options": {"expires": 4}},
    "costs": {"task": "relays.tasks.costs", "schedule": 5.0, "options": {"expires": 10}},
    "notices": {"task": "relays.tasks.notices", "schedule": 5.0, "options": {"expires": 10}},
    "maintenance": {"task": "relays.tasks.maintenance", "schedule": 5.0, "options": {"expires": 10}},
    "monthly": {"task": "relays.tasks.monthly", "schedule": 3600.0},
    "purge-doorbells": {"task": "relays.tasks.purge_doorbells", "schedule": 3600.0},
    "prune-hooks": {"task": "relays.tasks.prune_hooks", "schedule": 3600.0},
}
CELERY_BEAT_SCHEDULER = "relaysite.beat:Scheduler"
CELERY_BEAT_SCHEDULE_FILENAME = str(RELAY_VAR / "beat-schedule")

LOG_LEVEL = env.choice("LOG_LEVEL", "WARNING", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "line"},
        "nowhere": {"class": "logging.NullHandler"},
    },
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    # addresses of notices hold secrets: what these say of one is kept with the delivery, redacted, and never logged
    "loggers": {
        "apprise": {"level": "INFO", "propagate": False, "handlers": ["nowhere"]},
        "urllib3": {"level": "ERROR", "propagate": False, "handlers": ["nowhere"]},
        "requests_oauthlib": {"level": "ERROR", "propagate": False, "handlers": ["nowhere"]},
        "oauthlib": {"level": "ERROR", "propagate": False, "handlers": ["nowhere"]},
    },
}
