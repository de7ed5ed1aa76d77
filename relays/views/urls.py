"""The addresses of the pages (interface.md, Addresses)."""

from django.urls import URLPattern, path

from relays.views import (
    baton,
    cost,
    fleet_cost,
    gate,
    health,
    imports,
    leg,
    live_view,
    needs_you,
    relay,
    relays,
    session,
    sessions,
    sign_in,
    vocabulary,
)

urlpatterns: list[URLPattern] = [
    path("", needs_you.needs_you, name="needs_you"),
    path("relays/", relays.relays, name="relays"),
    path("cost/", fleet_cost.fleet_cost, name="fleet_cost"),
    path("vocabulary/", vocabulary.vocabulary, name="vocabulary"),
    path("sign-in/", sign_in.sign_in, name="sign_in"),
    path("sign-in/<str:secret>/", sign_in.sign_in_link, name="sign_in_link"),
    path("sign-out/", sign_in.sign_out, name="sign_out"),
    path("live/", live_view.live, name="live"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    # ---- relay, leg, baton, gate and their acts ----
    path("relays/<str:relay_id>/", relay.relay, name="relay"),
    path("relays/<str:relay_id>/park/", relay.park, name="relay_park"),
    path("relays/<str:relay_id>/park-now/", relay.park_now, name="relay_park_now"),
    path("relays/<str:relay_id>/facts/", relay.facts, name="relay_facts"),
    path("relays/<str:relay_id>/stop/", relay.stop, name="relay_stop"),
    path("relays/<str:relay_id>/stop-now/", relay.stop_now, name="relay_stop_now"),
    path("relays/<str:relay_id>/resume/", relay.resume, name="relay_resume"),
    path("relays/<str:relay_id>/legs/<int:n>/", leg.leg, name="leg"),
    path("relays/<str:relay_id>/batons/<int:n>/", baton.baton, name="baton"),
    path("relays/<str:relay_id>/batons/<int:n>/verify/", baton.verify, name="baton_verify"),
    path("relays/<str:relay_id>/cost/", cost.relay_cost, name="relay_cost"),
    path("gates/<int:pk>/", gate.gate, name="gate"),
    path("gates/<int:pk>/decide/", gate.decide, name="gate_decide"),
    # ---- sessions that nobody drives ----
    path("sessions/", sessions.sessions, name="sessions"),
    path("sessions/import/", imports.imports, name="imports"),
    path("sessions/import/<int:pk>/cancel/", imports.cancel, name="import_cancel"),
    path("sessions/import/<int:pk>/resume/", imports.resume, name="import_resume"),
    path("sessions/<int:pk>/", session.session, name="session"),
    path("sessions/<int:pk>/texts/<int:source>/", session.texts, name="session_texts"),
    path("sessions/<int:pk>/cost/", cost.session_cost, name="session_cost"),
    path("sessions/<int:pk>/calls.csv", session.calls, name="session_calls"),
]
