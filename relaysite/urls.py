from django.urls import include, path

urlpatterns = [path("api/v1/", include("relays.api.urls")), path("", include("relays.views.urls"))]
