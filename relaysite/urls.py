from django.urls import include, path

urlpatterns = [path("", include("relays.views.urls"))]
